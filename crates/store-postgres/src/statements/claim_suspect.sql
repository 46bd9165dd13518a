-- Leases one suspect, which runs alone. Parameters and result as in claim.sql, without hints: $6 is limited_claims. A
-- suspect already holds the slot of its lane, so lane checks do not matter here.
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
        where r.queue = $3 and r.run_at <= gate.now and r.suspect is not null and r.kind = any ($5::int[])
        order by r.priority, r.run_at, r.id limit $4 for update skip locked) r
    where not gate.limited or exists (select from counted)
    limit $4),
taken as (
    delete from windlass.ready r where r.ctid = any (array(select ctid from due))
    returning r.id, r.kind, r.priority, r.run_at, r.attempt, r.suspect, r.lane, r.slot),
leases as (
    insert into windlass.claims (token, worker, queue, attempt, crashes, alone, claimed_at, ids, run_ats, slots)
    select nextval('windlass.token_seq'), $2, $3, t.attempt + 1, t.suspect, true, gate.now, array[t.id],
           array[t.run_at], case when t.slot is not null then array[t.slot] end
    from gate, taken t
    returning token, attempt)
select gate.now, gate.checks, gate.limited and not exists (select from counted) as blocked,
       t.ids, t.kinds, t.priorities, t.run_ats, t.attempts, t.lanes, l.tokens, l.leased_attempts,
       null::bigint as id, null::bytea as payload, null::smallint as max_attempts, null::bigint as timeout_us,
       null::timestamptz as created_at, null::bigint as parent_id, null::boolean as holds_key
from gate,
     (select array_agg(id) as ids, array_agg(kind) as kinds, array_agg(priority) as priorities,
             array_agg(run_at) as run_ats, array_agg(attempt) as attempts, array_agg(lane) as lanes
      from taken) t,
     (select array_agg(token) as tokens, array_agg(attempt) as leased_attempts from leases) l
union all
select null, null, null, null, null, null, null, null, null, null, null,
       j.id, j.payload, j.max_attempts, j.timeout_us, j.created_at, j.parent_id,
       j.unique_until is not distinct from 'finished'
from windlass.jobs j where j.id = any (array(select id from taken))
