-- Lanes ----------------------------------------------------------------------------------------------------------
-- A lane is the jobs of one kind that share a concurrency key; its number is what kind and key come to. Its heads stand
-- in ready among all others and hold a slot each, until their attempt ends. The rest of the line stands in ready too,
-- under the negative number of the queue: no claim looks there, and at most one waiting job per unique key stays one
-- index. Heads are made by claims alone, which look where windlass_looks tells them to.

alter table windlass_kinds add column key_concurrency integer not null default 1 check (key_concurrency > 0);
alter table windlass_jobs add column lane integer;
alter table windlass_ready add column lane integer check (queue > 0 or lane is not null);
create index windlass_ready_lined on windlass_ready (lane, priority, run_at, id) where queue < 0;

-- laned: some of its jobs have a lane. Settling any other claim has nothing to do with lanes.
alter table windlass_claims add column laned integer not null default 0 check (laned in (0, 1));

create table windlass_slots (
    lane   integer not null,
    slot   integer not null check (slot > 0),
    job_id integer not null,
    primary key (lane, slot)
) strict, without rowid;

-- From `at` on something may be promoted in the lane: a job's time has come, or (freed) a slot got free then.
create table windlass_looks (
    kind  integer not null,
    at    integer not null,
    lane  integer not null,
    freed integer not null check (freed in (0, 1)),
    primary key (kind, at, lane)
) strict, without rowid;
