-- Settles completed jobs without a lane. Returns only those whose lease is lost.
--
-- $1 clock offset in microseconds   $2 ids   $3 tokens   $4 attempts   $5 started_at   $6 results
--
-- The fence is the claims row: while it has the id under that token, the lease is valid. Claims are locked in token
-- order, so overlapping batches cannot deadlock. There is no other condition than token and id: a plan that starts
-- from anything else changes with the statistics. A claim whose ids are all settled is deleted; another keeps the
-- rest.
with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
given as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::timestamptz[], $6::bytea[])
        with ordinality g (id, token, attempt, started_at, result, ord)),
claimed as materialized (
    select c.token, c.worker, c.ids from windlass.claims c
    where c.token = any (array(select distinct token from given)) order by c.token for update),
held as materialized (
    select g.*, c.worker
    from (select token, worker, unnest(ids) as id from claimed) c
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
finished as (
    insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, result)
    select h.id, {completed}, h.attempt, h.token, h.worker, h.started_at, clock.now, h.result
    from held h, clock order by h.id),
cancels as (
    delete from windlass.cancels where job_id = any (array(
        select id from held where exists (select from windlass.cancels))))
select g.ord, 'stale' as answer from given g where not exists (select from held h where h.ord = g.ord)
