-- Lanes ----------------------------------------------------------------------------------------------------------
-- A lane is the jobs of one kind that share a concurrency key; its number is what kind and key come to. Its heads stand
-- in ready among all others and hold a slot each, until their attempt ends. The rest of the line stands in ready too,
-- under the negative number of the queue: no claim looks there, and at most one waiting job per unique key stays one
-- index. Heads are made by claims alone, which look where looks tells them to.
-- The token of a claim says whether one of its jobs has a lane: it is odd then.

alter table windlass.kinds add key_concurrency smallint not null default 1 check (key_concurrency > 0);
alter table windlass.jobs add lane bigint;
alter table windlass.ready add lane bigint,
    add constraint ready_lined_has_lane check (queue > 0 or lane is not null);
create index ready_lined on windlass.ready (lane, priority, run_at, id) where -queue > 0;

create table windlass.slots (
    lane   bigint not null,
    slot   smallint not null check (slot > 0),
    job_id bigint not null,
    primary key (lane, slot)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- From `at` on something may be promoted in the lane: a job's time has come, or (freed) a slot got free then.
create table windlass.looks (
    kind  integer not null,
    at    timestamptz not null,
    lane  bigint not null,
    freed boolean not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create index looks_at on windlass.looks (kind, at);
