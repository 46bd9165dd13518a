-- Writes jobs with anything a job can have, and answers the ids of those written. A job whose unique key a waiting job
-- has is not written.
--
-- $1 to $7 as in insert_simple.sql $8 ids, null: drawn here   $9 times   $10 delays in microseconds   $11 unique keys
-- $12 until when: started, finished $13 concurrency keys   $14 lanes   $15 tags   $16 entity types   $17 entity ids $18
-- a time in the past is a place taken over from another job, and stays $19 channel   $20 wake-up to send with the
-- write, or null
--
-- Sorted by key, so that two batches with the same keys wait for each other in one direction only. Jobs of a lane are
-- blocked and leave a lane check.
with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
new as materialized (
    select u.*, clock.now,
           case when at is null and delay is null then clock.now
                when $18::boolean and at is not null then at
                else greatest(clock.now, coalesce(at, clock.now + delay * interval '1 microsecond'))
           end as run_at,
           coalesce(given, (floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22)
                           | (nextval('windlass.job_seq') & 4194303)) as id
    from clock, unnest($2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bytea[], $7::bigint[], $8::bigint[],
                       $9::timestamptz[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[],
                       $15::text[], $16::text[], $17::text[]) with ordinality
         u (kind, queue, priority, max_attempts, payload, timeout_us, given, at, delay, unique_key, unique_until,
            concurrency_key, lane, tags, entity_type, entity_id, n)),
ready as (
    insert into windlass.ready (queue, priority, run_at, id, kind, unique_key, lane)
    select case when lane is null then 1 else -1 end * queue, priority, run_at, id, kind, unique_key, lane
    from new order by unique_key, n
    on conflict (unique_key) where unique_key is not null do nothing
    returning id),
written as materialized (select * from new where id in (select id from ready)),
jobs as (
    insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us, payload, unique_key,
                               unique_until, concurrency_key, lane, tags, entity_type, entity_id)
    select id, kind, queue, priority, max_attempts, now, timeout_us, payload, unique_key, unique_until,
           concurrency_key, lane, tags::text[], entity_type, entity_id
    from written),
checks as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select distinct kind, run_at, lane, false from written where lane is not null)
select array_agg(id order by n), case when $20::text is not null then pg_notify($19::text, $20) end from written
