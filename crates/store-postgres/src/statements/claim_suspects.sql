-- Leases due jobs of higher levels of suspicion. The result is as in claim.sql.
--
-- $1 clock offset in microseconds   $2 worker   $3 queue   $4 most jobs   $5 kinds
-- $6 queues.limited_claims when the caller counted the leased jobs; null if it did not
-- $7, $8 lowest and highest level   $9 the job runs alone
--
-- Suspects keep the slot of their lane, so lane checks do not matter here.
with gate as materialized (
    select statement_timestamp() + $1::bigint * interval '1 microsecond' as now, false as checks,
           q.global_concurrency is not null as limited
    from windlass.workers w cross join windlass.queues q
    where w.id = $2 and q.id = $3 and not q.paused
    for key share of w),
counted as (
    update windlass.queues q set limited_claims = q.limited_claims + 1 from gate
    where q.id = $3 and q.limited_claims = $6::bigint and gate.limited
    returning q.id),
due as materialized (
    select r.ctid
    from gate cross join lateral (
        select r.ctid from windlass.ready r
        where r.queue = $3 and r.run_at <= gate.now and r.suspicion > 0
          and r.suspicion between $7::smallint and $8::smallint and r.kind = any ($5::int[])
        order by r.priority, r.run_at, r.id limit $4 for update skip locked) r
    where not gate.limited or exists (select from counted)
    limit $4),
taken as (
    delete from windlass.ready r where r.ctid = any (array(select ctid from due))
    returning r.id, r.kind, r.priority, r.run_at, r.attempt, r.suspicion, r.lane, r.slot),
leases as (
    insert into windlass.claims (token, worker, queue, attempt, suspicion, alone, claimed_at, ids, run_ats, slots)
    select nextval('windlass.token_seq'), $2, $3, t.attempt + 1, t.suspicion, $9, gate.now, t.ids, t.run_ats, t.slots
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
from windlass.jobs j where j.id = any (array(select id from taken))
