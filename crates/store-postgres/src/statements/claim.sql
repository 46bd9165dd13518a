-- Leases due jobs of a queue: takes their rows out of `ready` and writes one claims row per
-- attempt number and suspicion.
--
-- $1 clock offset in microseconds   $2 worker   $3 queue   $4 most jobs   $5 kinds
-- $6 per priority, the run_at at which the scan starts (a hint)
-- $7 the time at which the scan of lane checks starts (a hint)
-- $8 queues.limited_claims when the caller counted the leased jobs; null if it did not
--
-- The worker's row is locked so that a reclaim, which deletes it, either sees this claim or prevents it. There is one
-- index range per priority, so delayed jobs of an urgent priority are not scanned. `due` is materialized: in a plan
-- that runs it twice, SKIP LOCKED takes more rows than the limit.
--
-- Takes nothing while a lane check is due: the jobs that the check makes ready may come first. Takes nothing from a
-- queue with a global concurrency either, unless no other claim came since the caller counted (`counted`).
--
-- The first row of the result has the leases as arrays. One row per job with its columns of `jobs` follows. A join
-- here would choose a partition for every row; bounds that are known before the scan choose once.
with gate as materialized (
    select statement_timestamp() + $1::bigint * interval '1 microsecond' as now,
           exists (select from windlass.lane_checks c
                   where c.kind = any ($5::int[]) and c.at >= $7::timestamptz
                     and c.at <= statement_timestamp() + $1::bigint * interval '1 microsecond') as checks,
           q.global_concurrency is not null as limited
    from windlass.workers w cross join windlass.queues q
    where w.id = $2 and q.id = $3 and not q.paused
    for key share of w),
counted as (
    update windlass.queues q set limited_claims = q.limited_claims + 1 from gate
    where q.id = $3 and q.limited_claims = $8::bigint and gate.limited and not gate.checks
    returning q.id),
due as materialized (
    select r.ctid
    from gate cross join unnest($6::timestamptz[]) with ordinality p (low, n)
    cross join lateral (
        select r.ctid from windlass.ready r
        where r.queue = $3 and r.priority = (p.n - 1)::smallint and r.run_at >= p.low and r.run_at <= gate.now
          and r.suspicion <= 1 and r.kind = any ($5::int[])
        order by r.run_at, r.id limit $4 for update skip locked) r
    where not gate.checks and (not gate.limited or exists (select from counted))
    limit $4),
taken as (
    delete from windlass.ready r where r.ctid = any (array(select ctid from due))
    returning r.id, r.kind, r.priority, r.run_at, r.attempt, r.suspicion, r.lane, r.slot),
leases as (
    insert into windlass.claims (token, worker, queue, attempt, suspicion, alone, claimed_at, ids, run_ats, slots)
    select nextval('windlass.token_seq'), $2, $3, t.attempt + 1, t.suspicion, false, gate.now, t.ids, t.run_ats, t.slots
    from gate, (select attempt, suspicion, array_agg(id) as ids, array_agg(run_at) as run_ats,
                       case when bool_or(slot is not null) then array_agg(slot) end as slots
                from taken group by attempt, suspicion) t
    returning token, attempt, suspicion)
select gate.now, gate.checks, gate.limited and not exists (select from counted) as blocked,
       t.ids, t.kinds, t.priorities, t.run_ats, t.attempts, t.suspicions, t.lanes,
       l.tokens, l.leased_attempts, l.leased_suspicions,
       null::bigint as id, null::bytea as payload, null::smallint as max_attempts, null::bigint as timeout_us,
       null::timestamptz as created_at, null::bigint as parent_id, null::boolean as holds_key
from gate,
     (select array_agg(id) as ids, array_agg(kind) as kinds, array_agg(priority) as priorities,
             array_agg(run_at) as run_ats, array_agg(attempt) as attempts, array_agg(suspicion) as suspicions,
             array_agg(lane) as lanes
      from taken) t,
     (select array_agg(token) as tokens, array_agg(attempt) as leased_attempts,
             array_agg(suspicion) as leased_suspicions from leases) l
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null,
       j.id, j.payload, j.max_attempts, j.timeout_us, j.created_at, j.parent_id,
       j.unique_until is not distinct from 'finished'
from windlass.jobs j
where j.id = any (array(select id from taken))
  and j.id >= (select min(id) from taken) and j.id <= (select max(id) from taken)
