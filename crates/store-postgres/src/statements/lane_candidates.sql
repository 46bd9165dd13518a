-- For each lane: its free slots, and the first due blocked jobs of each priority, as many as there are free slots.
--
-- $1 clock offset in microseconds   $2 lanes   $3 their kinds
--
-- One row per candidate, or one row without a candidate. `locked` is false for a job that another session has locked:
-- it cannot be moved now. Rows are locked by address, so one that changed since this statement began is not locked
-- either.
--
-- Each lane costs a few probes of `ready_blocked`, whatever the statistics are: its first job, its last priority, and,
-- unless the first job is the answer, the first due jobs of each priority. Jobs due later are never scanned.
with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
lanes as materialized (
    select u.lane, u.kind, k.key_concurrency, q.boost_after_us,
           array(select s.slot from windlass.lane_slots s where s.lane = u.lane) as taken,
           first.address, first.id, first.priority as first_priority, first.run_at,
           (select r.priority from windlass.ready r where -r.queue > 0 and r.lane = u.lane
            order by r.priority desc, r.run_at desc, r.id desc limit 1) as last_priority
    from unnest($2::bigint[], $3::int[]) u (lane, kind)
    join windlass.kinds k on k.id = u.kind join windlass.queues q on q.id = k.queue
    left join lateral (
        select r.ctid as address, r.id, r.priority, r.run_at from windlass.ready r
        where -r.queue > 0 and r.lane = u.lane
        order by r.priority, r.run_at, r.id limit 1) first on true),
open as materialized (
    select l.*,
           l.key_concurrency = 1 and l.first_priority = l.last_priority and l.run_at <= clock.now as first_is_next,
           array(select s.slot::smallint from generate_series(1, l.key_concurrency::int) s (slot)
                 where s.slot <> all (l.taken) order by s.slot
                 limit greatest(l.key_concurrency - cardinality(l.taken), 0)) as free
    from clock cross join lanes l),
candidates as materialized (
    select lane, address, id, first_priority as priority, run_at from open
    where first_is_next and cardinality(free) > 0
    union all
    select o.lane, r.ctid, r.id, r.priority, r.run_at
    from open o cross join clock cross join generate_series(o.first_priority::int, o.last_priority::int) p (priority)
    cross join lateral (
        select r.ctid, r.id, r.priority, r.run_at from windlass.ready r
        where -r.queue > 0 and r.lane = o.lane and r.priority = p.priority::smallint and r.run_at <= clock.now
        order by r.run_at, r.id limit cardinality(o.free)) r
    where not o.first_is_next),
locked as materialized (
    select r.ctid as address from windlass.ready r
    where r.ctid = any (array(select address from candidates)) and -r.queue > 0
    for update skip locked)
select clock.now, o.lane, o.kind, o.boost_after_us, o.free, c.address, c.id, c.priority, c.run_at,
       c.address in (select address from locked) as locked
from clock cross join open o left join candidates c on c.lane = o.lane
