-- Times are microseconds since 1970 in UTC; durations end in _us. Tables are prefixed because they may live inside
-- the application's own database file.

-- Registry -----------------------------------------------------------------------------------------------------
-- live_* columns hold what an operator set; the others are configuration and may be overwritten at each start.

create table windlass_queues (
    id                 integer primary key,
    name               text not null unique,
    priority           integer not null check (priority between 0 and 10),
    concurrency        integer not null check (concurrency >= 0),
    cadence_us         integer not null,
    sla_us             integer,
    owner              text not null,
    colour             text not null,
    depth_cap          integer,
    paused             integer not null default 0 check (paused in (0, 1)),
    live_concurrency   integer check (live_concurrency >= 0),
    live_depth_cap     integer,
    live_depth_cap_set integer not null default 0 check (live_depth_cap_set in (0, 1))
) strict;

create table windlass_kinds (
    id              integer primary key,
    name            text not null unique,
    queue           integer not null references windlass_queues (id),
    priority        integer check (priority between 0 and 10),
    max_attempts    integer not null check (max_attempts > 0),
    timeout_us      integer,
    backoff_base_us integer not null,
    backoff_cap_us  integer not null,
    description     text not null
) strict;

-- Jobs -----------------------------------------------------------------------------------------------------------
-- A job is in exactly one of ready, claims and finished. Ids carry the millisecond of their making above bit 22.

create table windlass_jobs (
    id              integer primary key,
    kind            integer not null,
    queue           integer not null,
    priority        integer not null check (priority between 0 and 10),
    max_attempts    integer not null check (max_attempts > 0),
    payload_key_id  integer,
    waiting_on      integer not null default 0,
    created_at      integer not null,
    timeout_us      integer,
    parent_id       integer,
    payload         blob not null,
    unique_key      text,
    concurrency_key text,
    tags            text,
    entity_type     text,
    entity_id       text,
    tenant          text,
    check ((entity_type is null) = (entity_id is null))
) strict;

create index windlass_jobs_entity on windlass_jobs (entity_type, entity_id, id) where entity_type is not null;

-- attempt: attempts used so far. suspect: null, or the lone crashes of a job that must be run alone next.
create table windlass_ready (
    queue      integer not null,
    priority   integer not null check (priority between 0 and 10),
    run_at     integer not null,
    id         integer not null,
    kind       integer not null,
    attempt    integer not null default 0 check (attempt >= 0),
    suspect    integer check (suspect >= 0),
    unique_key text,
    primary key (queue, priority, run_at, id)
) strict, without rowid;

create unique index windlass_ready_id on windlass_ready (id);
create unique index windlass_ready_unique on windlass_ready (unique_key) where unique_key is not null;
create index windlass_ready_suspect on windlass_ready (queue, priority, run_at, id) where suspect is not null;

-- One row per batch leased with the same attempt number; ids shrinks as jobs settle and the row goes with the last.
-- ids holds distances from first_id: 500 neighbours stay within one page. windlass_leases unfolds it. place and
-- places hold in the same way, and the same order, the run_at each had; places is null when all had the same.
-- autoincrement: a token is never given twice, although its row is deleted.
create table windlass_claims (
    token      integer primary key autoincrement,
    worker     integer not null,
    queue      integer not null,
    attempt    integer not null check (attempt > 0),
    crashes    integer not null default 0,
    alone      integer not null check (alone in (0, 1)),
    claimed_at integer not null,
    place      integer not null,
    first_id   integer not null,
    ids        text not null check (json_array_length(ids) > 0),
    places     text,
    check (alone = 0 or json_array_length(ids) = 1)
) strict;

create index windlass_claims_worker on windlass_claims (worker);

-- state: 3 completed, 4 failed, 5 dead_letter, 6 cancelled, 7 superseded. The row is also the record of the last
-- attempt; a job that ended while it waited has no token.
create table windlass_finished (
    id          integer primary key,
    state       integer not null check (state in (3, 4, 5, 6, 7)),
    attempt     integer not null check (attempt >= 0),
    token       integer,
    worker      integer,
    started_at  integer,
    finished_at integer not null,
    result      blob,
    error       text,
    check ((token is null) = (worker is null)),
    check (result is null or state = 3)
) strict;

create index windlass_finished_dead on windlass_finished (id) where state in (4, 5);

-- Ended attempts that did not finish their job.
create table windlass_attempts (
    id         integer not null,
    token      integer not null,
    attempt    integer not null,
    worker     integer,
    started_at integer not null,
    ended_at   integer not null,
    outcome    text not null check (outcome in ('retry', 'snooze', 'handed_back', 'lost', 'failed', 'dead_letter',
                                                'cancelled')),
    error      text,
    primary key (id, token)
) strict, without rowid;

create table windlass_logs (
    seq     integer primary key,
    job_id  integer not null,
    attempt integer not null,
    at      integer not null,
    line    text not null
) strict;

create index windlass_logs_job on windlass_logs (job_id, seq);

create table windlass_progress (
    job_id  integer primary key,
    percent real not null,
    message text,
    at      integer not null
) strict;

create table windlass_cancels (
    job_id       integer primary key,
    requested_at integer not null
) strict;

-- The highest id a deleted job had: with a clock set back it would otherwise be given again.
create table windlass_deleted (
    only    integer primary key check (only = 1),
    last_id integer not null
) strict;

insert into windlass_deleted (only, last_id) values (1, 0);

-- Workers --------------------------------------------------------------------------------------------------------

create table windlass_workers (
    id           integer primary key autoincrement,
    label        text not null,
    queues       text not null check (json_valid(queues)),
    lease_us     integer not null,
    started_at   integer not null,
    heartbeat_at integer not null,
    beats        integer not null default 0,
    expires_at   integer not null
) strict;

create table windlass_idempotency (
    key         text primary key,
    job_id      integer not null,
    fingerprint blob not null,
    created_at  integer not null
) strict, without rowid;

create index windlass_idempotency_job on windlass_idempotency (job_id);

-- What the claims say, one row per leased job.
create view windlass_leases as
select c.first_id + e.value as id, c.token, c.worker, c.queue, c.attempt, c.crashes, c.alone, c.claimed_at
from windlass_claims c, json_each(c.ids) e;

-- Every run of a job: those that did not finish it, the one that did, the one under way.
create view windlass_attempt_history as
select id, token, attempt, worker, started_at, ended_at, outcome, error
from windlass_attempts
union all
select id, token, attempt, worker, started_at, finished_at,
       case state when 3 then 'completed' when 4 then 'failed' when 5 then 'dead_letter' when 6 then 'cancelled'
                  else 'superseded' end,
       error
from windlass_finished
where token is not null
union all
select id, token, attempt, worker, claimed_at, null, 'running', null
from windlass_leases;
