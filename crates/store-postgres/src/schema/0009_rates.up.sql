-- Limits ----------------------------------------------------------------------------------------------------------

-- What a process has few of; `live_permits` is an operator's.
create table windlass.resources (
    name         text primary key,
    permits      integer not null check (permits > 0),
    live_permits integer check (live_permits > 0)
);

-- One row per kind whose rate is bounded: the moment up to which tokens are given away. Updated in place a few times a
-- second by each process.
create table windlass.rates (
    kind        integer primary key,
    given_until timestamptz not null
) with (fillfactor = 50);

alter table windlass.kinds
    add column rate text,
    -- 'none' lifts the bound.
    add column live_rate text,
    add column resource text;

alter table windlass.queues
    add column resource text,
    add column concurrency_min integer check (concurrency_min > 0),
    add column concurrency_max integer check (concurrency_max >= concurrency_min),
    add column live_concurrency_min integer check (live_concurrency_min > 0),
    add column live_concurrency_max integer check (live_concurrency_max >= live_concurrency_min);

-- What a worker last said of its own limits.
alter table windlass.workers add column limits text not null default '{}';
