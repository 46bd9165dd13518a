-- Schedules ------------------------------------------------------------------------------------------------------

-- last_tick is the latest tick that was dealt with, and next_at when to look again. A tick is a compare-and-set of
-- last_tick, in the transaction that enqueues its jobs. revision grows with every other change, so that nobody ticks by a
-- description that is no more.
-- spec: what is enqueued and when, with its own calendars. created_at: intervals count from here.
create table windlass_schedules (
    name       text primary key,
    spec       text not null check (json_valid(spec)),
    payload    blob not null,
    revision   integer not null default 1,
    paused     integer not null default 0 check (paused in (0, 1)),
    last_tick  integer not null,
    next_at    integer,
    missed     integer not null default 0 check (missed >= 0),
    created_at integer not null,
    updated_at integer not null
) strict;

create index windlass_schedules_next on windlass_schedules (next_at) where paused = 0 and next_at is not null;
