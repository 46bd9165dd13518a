-- Registry -----------------------------------------------------------------------------------------------------
-- live_* columns hold what an operator set; the others are configuration and may be overwritten at each start.

create table windlass.queues (
    id                 integer generated always as identity primary key,
    name               text not null unique,
    priority           smallint not null check (priority between 0 and 10),
    concurrency        integer not null check (concurrency >= 0),
    cadence_us         bigint not null,
    sla_us             bigint,
    owner              text not null,
    colour             text not null,
    depth_cap          bigint,
    paused             boolean not null default false,
    live_concurrency   integer check (live_concurrency >= 0),
    live_depth_cap     bigint,
    live_depth_cap_set boolean not null default false
);

create table windlass.kinds (
    id              integer generated always as identity primary key,
    name            text not null unique,
    queue           integer not null references windlass.queues (id),
    priority        smallint check (priority between 0 and 10),
    max_attempts    smallint not null check (max_attempts > 0),
    timeout_us      bigint,
    backoff_base_us bigint not null,
    backoff_cap_us  bigint not null,
    description     text not null
);

-- Jobs -----------------------------------------------------------------------------------------------------------
-- A job is in exactly one of ready, claims and finished. Ids carry the millisecond of their making above bit 22, so
-- a partition by id is a partition by time.

create sequence windlass.job_seq;
create sequence windlass.token_seq;
create sequence windlass.worker_seq;

create table windlass.jobs (
    id              bigint primary key,
    kind            integer not null,
    queue           integer not null,
    priority        smallint not null check (priority between 0 and 10),
    max_attempts    smallint not null check (max_attempts > 0),
    payload_key_id  integer,
    waiting_on      integer not null default 0,
    created_at      timestamptz not null,
    timeout_us      bigint,
    parent_id       bigint,
    payload         bytea not null,
    unique_key      text,
    concurrency_key text,
    tags            text[],
    entity_type     text,
    entity_id       text,
    tenant          text,
    constraint jobs_entity_whole check ((entity_type is null) = (entity_id is null))
) partition by range (id);

create index jobs_entity on windlass.jobs (entity_type, entity_id, id) where entity_type is not null;
create table windlass.jobs_default partition of windlass.jobs default;

-- attempt: attempts used so far. suspect: null, or the lone crashes of a job that must be run alone next.
create table windlass.ready (
    queue      integer not null,
    priority   smallint not null check (priority between 0 and 10),
    run_at     timestamptz not null,
    id         bigint not null,
    kind       integer not null,
    attempt    smallint not null default 0 check (attempt >= 0),
    suspect    smallint check (suspect >= 0),
    unique_key text,
    primary key (queue, priority, run_at, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create unique index ready_id on windlass.ready (id);
create unique index ready_unique on windlass.ready (unique_key) where unique_key is not null;
create index ready_suspect on windlass.ready (queue, priority, run_at, id) where suspect is not null;

-- One row per batch leased with the same attempt number; ids shrinks as jobs settle and the row goes with the last.
-- run_ats says where each stood, so that it can be put back there. Some 500 of both fit into the row itself: moving
-- them to the TOAST table costs more than the claim.
create table windlass.claims (
    token      bigint primary key,
    worker     bigint not null,
    queue      integer not null,
    attempt    smallint not null check (attempt > 0),
    crashes    smallint not null default 0,
    alone      boolean not null,
    claimed_at timestamptz not null,
    ids        bigint[] not null check (cardinality(ids) > 0),
    run_ats    timestamptz[] not null,
    constraint claims_places_match check (cardinality(run_ats) = cardinality(ids)),
    constraint claims_alone_is_one check (not alone or cardinality(ids) = 1)
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
alter table windlass.claims alter column ids set storage external,
    alter column run_ats set storage external;

-- state: 3 completed, 4 failed, 5 dead_letter, 6 cancelled, 7 superseded. The row is also the record of the last
-- attempt; a job that ended while it waited has no token.
create table windlass.finished (
    id          bigint primary key,
    state       smallint not null check (state in (3, 4, 5, 6, 7)),
    attempt     smallint not null check (attempt >= 0),
    token       bigint,
    worker      bigint,
    started_at  timestamptz,
    finished_at timestamptz not null,
    result      bytea,
    error       text,
    constraint finished_run_whole check ((token is null) = (worker is null)),
    constraint finished_result_of_success check (result is null or state = 3)
) partition by range (id);

create index finished_dead on windlass.finished (id) where state in (4, 5);
create table windlass.finished_default partition of windlass.finished default;

-- Ended attempts that did not finish their job.
create table windlass.attempts (
    id         bigint not null,
    token      bigint not null,
    attempt    smallint not null,
    worker     bigint,
    started_at timestamptz not null,
    ended_at   timestamptz not null,
    outcome    text not null check (outcome in ('retry', 'snooze', 'handed_back', 'lost', 'failed', 'dead_letter',
                                                'cancelled')),
    error      text,
    primary key (id, token)
);

create table windlass.logs (
    job_id  bigint not null,
    seq     bigint generated always as identity,
    attempt smallint not null,
    at      timestamptz not null,
    line    text not null,
    primary key (job_id, seq)
);

create table windlass.progress (
    job_id  bigint primary key,
    percent real not null,
    message text,
    at      timestamptz not null
);

create table windlass.cancels (
    job_id       bigint primary key,
    requested_at timestamptz not null
);

-- Workers --------------------------------------------------------------------------------------------------------

create table windlass.workers (
    id           bigint primary key,
    label        text not null,
    queues       integer[] not null,
    lease_us     bigint not null,
    started_at   timestamptz not null,
    heartbeat_at timestamptz not null,
    beats        bigint not null default 0,
    expires_at   timestamptz not null
) with (fillfactor = 50);

create table windlass.idempotency (
    key         text primary key,
    job_id      bigint not null,
    fingerprint bytea not null,
    created_at  timestamptz not null
);

-- Every run of a job: those that did not finish it, the one that did, the one under way.
create view windlass.attempt_history as
select id, token, attempt, worker, started_at, ended_at, outcome, error
from windlass.attempts
union all
select id, token, attempt, worker, started_at, finished_at,
       case state when 3 then 'completed' when 4 then 'failed' when 5 then 'dead_letter' when 6 then 'cancelled'
                  else 'superseded' end,
       error
from windlass.finished
where token is not null
union all
select i.id, c.token, c.attempt, c.worker, c.claimed_at, null, 'running', null
from windlass.claims c, unnest(c.ids) i (id);
