-- Writes jobs that have nothing but a kind and a payload, which is most of them. A fifth more per second than
-- insert_jobs.sql.
--
-- $1 clock offset in microseconds   $2 kinds   $3 queues   $4 priorities   $5 max_attempts   $6 payloads   $7 timeouts
-- $8 channel   $9 wake-up to send with the write, or null
--
-- Ids hold the millisecond above bit 22 and a sequence below. Rows of one statement get theirs in input order.
with clock as materialized (
    select statement_timestamp() + $1::bigint * interval '1 microsecond' as now,
           floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22 as millisecond),
new as materialized (
    select u.*, clock.now, clock.millisecond | (nextval('windlass.job_seq') & 4194303) as id
    from clock, unnest($2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bytea[], $7::bigint[]) with ordinality
         u (kind, queue, priority, max_attempts, payload, timeout_us, n)),
ready as (
    insert into windlass.ready (queue, priority, run_at, id, kind)
    select queue, priority, now, id, kind from new),
jobs as (
    insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us, payload)
    select id, kind, queue, priority, max_attempts, now, timeout_us, payload from new)
select array_agg(id order by n), case when $9::text is not null then pg_notify($8::text, $9) end from new
