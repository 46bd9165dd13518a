-- Gives slots to blocked jobs, which become ready, and leaves lane checks.
--
-- $1 addresses in ready   $2 lanes   $3 slots   $4 run_at as ready jobs   $5 kinds
-- $6, $7, $8, $9 kind, time, lane and `freed` of the checks to leave
--
-- This transaction has locked the jobs. If another session took a slot meanwhile, the job for that slot stays blocked
-- and a check is left for its lane.
with wanted as materialized (
    select * from unnest($1::tid[], $2::bigint[], $3::smallint[], $4::timestamptz[], $5::int[])
        u (address, lane, slot, place, kind)),
got as (
    insert into windlass.lane_slots (lane, slot) select lane, slot from wanted order by lane, slot
    on conflict do nothing returning lane, slot),
moved as (
    update windlass.ready r set queue = -r.queue, run_at = w.place, slot = w.slot
    from wanted w
    where r.ctid = w.address and ((w.lane, w.slot) in (select lane, slot from got)) is true
    returning r.queue, r.run_at),
checks as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select * from unnest($6::int[], $7::timestamptz[], $8::bigint[], $9::boolean[])
    union all
    select w.kind, w.place, w.lane, false from wanted w
    where ((w.lane, w.slot) in (select lane, slot from got)) is not true)
select queue, min(run_at) as run_at, count(*) as jobs from moved group by queue
