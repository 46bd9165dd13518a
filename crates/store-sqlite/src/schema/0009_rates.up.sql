-- Limits ----------------------------------------------------------------------------------------------------------

-- What a process has few of; `live_permits` is an operator's.
create table windlass_resources (
    name         text primary key,
    permits      integer not null check (permits > 0),
    live_permits integer check (live_permits > 0)
) strict, without rowid;

-- One row per kind whose rate is bounded: the moment up to which tokens are given away.
create table windlass_rates (
    kind        integer primary key,
    given_until integer not null
) strict;

alter table windlass_kinds add column rate text;
-- 'none' lifts the bound.
alter table windlass_kinds add column live_rate text;
alter table windlass_kinds add column resource text;

alter table windlass_queues add column resource text;
alter table windlass_queues add column concurrency_min integer check (concurrency_min > 0);
alter table windlass_queues add column concurrency_max integer check (concurrency_max >= concurrency_min);
alter table windlass_queues add column live_concurrency_min integer check (live_concurrency_min > 0);
alter table windlass_queues add column live_concurrency_max integer check (live_concurrency_max >= live_concurrency_min);

-- What a worker last said of its own limits.
alter table windlass_workers add column limits text not null default '{}' check (json_valid(limits));
