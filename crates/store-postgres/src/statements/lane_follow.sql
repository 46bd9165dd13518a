-- Removes and returns the due lane checks of these kinds.
--
-- $1 clock offset in microseconds   $2 kinds   $3 the time at which the scan starts (a hint)   $4 most checks
--
-- The row of each kind is locked, though not written, so that claims fill its lanes one after the other: two that fill
-- one lane concurrently could skip its next job. Each kind gets an equal share of $4, so that the lanes of one kind do
-- not delay the others.
with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
kinds as materialized (
    select k.id from clock cross join windlass.kinds k cross join lateral (
        select from windlass.lane_checks c where c.kind = k.id and c.at >= $3 and c.at <= clock.now limit 1) c
    where k.id = any ($2::int[])
    order by k.id for no key update of k),
due as materialized (
    select c.ctid from clock cross join kinds k cross join lateral (
        select c.ctid from windlass.lane_checks c
        where c.kind = k.id and c.at >= $3 and c.at <= clock.now
        order by c.at limit greatest($4::bigint / (select count(*) from kinds), 1)) c)
delete from windlass.lane_checks c where c.ctid = any (array(select ctid from due))
returning c.kind, c.lane, c.at, c.freed
