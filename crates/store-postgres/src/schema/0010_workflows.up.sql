-- A workflow's id is also in the parent_id of its jobs. One that waits stands in ready under queue 0, which no queue has,
-- with the latest time there is.
alter table windlass.ready drop constraint ready_lined_has_lane,
    add constraint ready_lined_has_lane check (queue >= 0 or lane is not null);

-- on_failure: 0 stop, 1 continue, 2 compensate. state: 0 running, 1 completed, 2 failed, 3 cancelled, 4 compensating,
-- 5 compensated. The row is the lock under which anything about its jobs is decided.
create table windlass.workflows (
    id         bigint primary key,
    name       text,
    on_failure smallint not null check (on_failure in (0, 1, 2)),
    state      smallint not null default 0 check (state between 0 and 5),
    created_at timestamptz not null,
    ended_at   timestamptz,
    constraint workflows_end_known check ((ended_at is null) = (state in (0, 4)))
);

create index workflows_open on windlass.workflows (id) where ended_at is null;

-- state: 0 waits, 1 in its queue or running, else the state it ended in; it stays when the job is pruned. parents: places
-- (no) before its own. undoes: the place of the job that this one takes back. undo: what takes this one back, if need be.
-- run_at and delay_us: not before, and so long after, the release.
create table windlass.workflow_jobs (
    workflow     bigint not null,
    no           integer not null,
    job_id       bigint not null,
    name         text not null,
    state        smallint not null default 0 check (state in (0, 1, 3, 4, 5, 6, 7)),
    goes_on      boolean not null,
    parents      integer[] not null,
    undoes       integer,
    run_at       timestamptz,
    delay_us     bigint,
    undo         text,
    undo_payload bytea,
    primary key (workflow, no),
    constraint workflow_jobs_undo_whole check ((undo is null) = (undo_payload is null))
);

create unique index workflow_jobs_job on windlass.workflow_jobs (job_id);
create index workflow_jobs_open on windlass.workflow_jobs (job_id) where state in (0, 1);
