-- Schedules ------------------------------------------------------------------------------------------------------

-- last_tick is the latest tick that was dealt with, and next_at when to look again. A tick is a compare-and-set of
-- last_tick, in the transaction that enqueues its jobs. revision grows with every other change, so that nobody ticks by a
-- description that is no more.
-- spec: what is enqueued and when, with its own calendars. created_at: intervals count from here.
-- Names compare by bytes, as on SQLite. spec is json, not jsonb: two descriptions are the same when their texts are.
-- Every tick leaves a dead entry at the low end of the index.
create table windlass.schedules (
    name       text collate "C" primary key,
    spec       json not null,
    payload    bytea not null,
    revision   bigint not null default 1,
    paused     boolean not null default false,
    last_tick  timestamptz not null,
    next_at    timestamptz,
    missed     bigint not null default 0 check (missed >= 0),
    created_at timestamptz not null,
    updated_at timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index schedules_next on windlass.schedules (next_at) where not paused and next_at is not null;
