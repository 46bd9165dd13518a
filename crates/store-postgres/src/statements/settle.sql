-- Settles any jobs: jobs that end, jobs that return, jobs of lanes. Returns those that were not simply accepted.
--
-- $1 to $6 as in settle_done.sql
-- $7 states; null: the job returns   $8 errors   $9 outcomes of those that return   $10 attempts used
-- $11 delays in microseconds, or $12 places   $13 lanes   $14 kinds, null without a lane
--
-- The fence is as in settle_done.sql. A job that was handed back did not run: it keeps its slot and its
-- suspicion. Any other job of a lane that returns is blocked again and leaves a lane check. Slots are removed
-- after all waits for unique keys (`returned` is read first). The caller fills the lanes in the same transaction.
with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
given as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::timestamptz[], $6::bytea[], $7::smallint[],
                         $8::text[], $9::text[], $10::smallint[], $11::bigint[], $12::timestamptz[], $13::bigint[],
                         $14::int[])
        with ordinality g (id, token, attempt, started_at, result, state, error, outcome, used, delay, place, lane,
                           kind, ord)),
claimed as materialized (
    select c.token, c.worker, c.ids, c.slots, c.suspicion
    from windlass.claims c
    where c.token = any (array(select distinct token from given)) order by c.token for update),
held as materialized (
    select g.*, c.worker, c.suspicion, c.slot
    from (select token, worker, suspicion, unnest(ids) as id, unnest(slots) as slot from claimed) c
    join given g on g.token = c.token and g.id = c.id),
settled as materialized (select token, array_agg(id) as ids from held group by token),
gone as (
    delete from windlass.claims k using settled s, claimed c
    where k.token = s.token and c.token = s.token and cardinality(c.ids) = cardinality(s.ids)),
kept as (
    update windlass.claims k
    set (ids, run_ats, slots) = (
        select array_agg(i.id), array_agg(i.run_at), case when k.slots is not null then array_agg(i.slot) end
        from unnest(k.ids, k.run_ats, k.slots) i (id, run_at, slot)
        where not exists (select from unnest(s.ids) d (id) where d.id = i.id))
    from settled s, claimed c
    where k.token = s.token and c.token = s.token and cardinality(c.ids) > cardinality(s.ids)),
cancelled as (
    delete from windlass.cancels where job_id in (select id from held) returning job_id),
back as materialized (
    select h.id, j.priority, j.kind, j.unique_key, j.lane, h.used,
           case when h.outcome = 'handed_back' then h.suspicion else 0 end as suspicion,
           case when h.outcome = 'handed_back' then h.slot end as slot,
           case when j.lane is null or h.outcome = 'handed_back' then 1 else -1 end * j.queue as queue,
           coalesce(h.place, clock.now + h.delay * interval '1 microsecond') as run_at
    from clock, held h join windlass.jobs j on j.id = h.id
    where h.state is null and not exists (select from cancelled c where c.job_id = h.id)),
returned as (
    insert into windlass.ready (queue, priority, run_at, id, kind, attempt, suspicion, unique_key, lane, slot)
    select queue, priority, run_at, id, kind, used, suspicion, unique_key, lane, slot from back
    order by unique_key, id
    on conflict (unique_key) where unique_key is not null do nothing
    returning id),
ends as materialized (
    select h.*, case when h.state is not null then h.state
                     when exists (select from cancelled c where c.job_id = h.id) then {cancelled}
                     when not exists (select from returned r where r.id = h.id) then {superseded} end as ended
    from held h),
freed as (
    delete from windlass.lane_slots where ctid = any (array(
        select s.ctid from ends e cross join lateral (
            select s.ctid from windlass.lane_slots s where s.lane = e.lane and s.slot = e.slot limit 1) s
        where e.slot is not null and (e.ended is not null or e.outcome <> 'handed_back')
          and (select count(*) from returned) >= 0))),
checks as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select b.kind, b.run_at, b.lane, false from back b
    where b.queue < 0 and b.id in (select id from returned)),
finished as (
    insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, result, error)
    select e.id, e.ended, e.attempt, e.token, e.worker, e.started_at, clock.now, e.result, e.error
    from ends e, clock where e.ended is not null order by e.id),
attempts as (
    insert into windlass.attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
    select e.id, e.token, e.attempt, e.worker, e.started_at, clock.now, e.outcome, e.error
    from ends e, clock where e.ended is null)
select g.ord,
       case when e.ord is null then 'stale' when e.ended = {superseded} then 'superseded' else 'cancelled' end as answer
from given g left join ends e on e.ord = g.ord
where e.ord is null or (e.state is null and e.ended is not null)
