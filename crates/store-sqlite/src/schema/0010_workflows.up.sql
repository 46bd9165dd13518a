-- A workflow's id is also in the parent_id of its jobs. One that waits stands in ready under queue 0, which no queue has,
-- with the latest time there is. The column is made anew because its check cannot be changed; who waits in line is whoever has a
-- lane and no slot.
drop index windlass_ready_lined;
update windlass_ready set queue = abs(queue) where queue < 0;
alter table windlass_ready drop column lane;
alter table windlass_ready add column lane integer check (queue >= 0 or lane is not null);
update windlass_ready set lane = (select j.lane from windlass_jobs j where j.id = windlass_ready.id);
update windlass_ready set queue = -queue
where lane is not null
  and not exists (select 1 from windlass_slots s where s.lane = windlass_ready.lane and s.job_id = windlass_ready.id);
create index windlass_ready_lined on windlass_ready (lane, priority, run_at, id) where queue < 0;

-- on_failure: 0 stop, 1 continue, 2 compensate. state: 0 running, 1 completed, 2 failed, 3 cancelled, 4 compensating,
-- 5 compensated.
create table windlass_workflows (
    id         integer primary key,
    name       text,
    on_failure integer not null check (on_failure in (0, 1, 2)),
    state      integer not null default 0 check (state between 0 and 5),
    created_at integer not null,
    ended_at   integer,
    check ((ended_at is null) = (state in (0, 4)))
) strict;

create index windlass_workflows_open on windlass_workflows (id) where ended_at is null;

-- state: 0 waits, 1 in its queue or running, else the state it ended in; it stays when the job is pruned. parents: places
-- (no) before its own. undoes: the place of the job that this one takes back. undo: what takes this one back, if need be.
-- run_at and delay_us: not before, and so long after, the release.
create table windlass_workflow_jobs (
    workflow     integer not null,
    no           integer not null,
    job_id       integer not null,
    name         text not null,
    state        integer not null default 0 check (state in (0, 1, 3, 4, 5, 6, 7)),
    goes_on      integer not null check (goes_on in (0, 1)),
    parents      text not null check (json_valid(parents)),
    undoes       integer,
    run_at       integer,
    delay_us     integer,
    undo         text,
    undo_payload blob,
    primary key (workflow, no),
    check ((undo is null) = (undo_payload is null))
) strict, without rowid;

create unique index windlass_workflow_jobs_job on windlass_workflow_jobs (job_id);
create index windlass_workflow_jobs_open on windlass_workflow_jobs (job_id) where state in (0, 1);
