CREATE VIEW windlass_attempt_history as
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

CREATE TABLE windlass_attempts (
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

CREATE TABLE windlass_cancels (
    job_id       integer primary key,
    requested_at integer not null
) strict;

CREATE TABLE windlass_claims (
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

CREATE INDEX windlass_claims_worker on windlass_claims (worker);

CREATE TABLE windlass_deleted (
    only    integer primary key check (only = 1),
    last_id integer not null
) strict;

CREATE TABLE windlass_entities (
    no              integer primary key,
    type            integer not null references windlass_types (id),
    id              text not null,
    version         integer not null check (version > 0),
    seq             integer not null,
    fields          text check (json_valid(fields)),
    hash            blob,
    state           integer not null check (state in (1, 2, 3, 4)),
    waiting         integer check (waiting in (2, 3)),
    indexed_version integer,
    job_id          integer,
    error           text,
    created_at      integer not null,
    updated_at      integer not null,
    check ((fields is null) = (state = 4)),
    check ((fields is null) = (hash is null))
) strict;

CREATE UNIQUE INDEX windlass_entities_id on windlass_entities (type, id);

CREATE INDEX windlass_entities_pending on windlass_entities (no) where state = 1;

CREATE UNIQUE INDEX windlass_entities_seq on windlass_entities (seq);

CREATE TABLE windlass_finished (
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

CREATE INDEX windlass_finished_dead on windlass_finished (id) where state in (4, 5);

CREATE TABLE windlass_idempotency (
    key         text primary key,
    job_id      integer not null,
    fingerprint blob not null,
    created_at  integer not null
) strict, without rowid;

CREATE INDEX windlass_idempotency_job on windlass_idempotency (job_id);

CREATE VIEW windlass_job_view as
select j.id, k.name as kind, q.name as queue,
       case when r.id is not null
            then case when r.run_at > cast(unixepoch('subsec') * 1000000 as integer) then 'scheduled' else 'pending' end
            when c.id is not null then 'running'
            else case f.state when 3 then 'completed' when 4 then 'failed' when 5 then 'dead_letter'
                              when 6 then 'cancelled' when 7 then 'superseded' end
       end as state,
       j.priority, coalesce(r.attempt, c.attempt, f.attempt) as attempt, j.max_attempts,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.run_at / 1e6, 'unixepoch') as run_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1e6, 'unixepoch') as created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(c.claimed_at, f.started_at) / 1e6, 'unixepoch') as started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', f.finished_at / 1e6, 'unixepoch') as finished_at,
       coalesce(c.worker, f.worker) as worker, f.error, r.suspect,
       j.unique_key, j.concurrency_key, j.tags, j.entity_type, j.entity_id, j.tenant, j.parent_id
from windlass_jobs j
join windlass_kinds k on k.id = j.kind
join windlass_queues q on q.id = j.queue
left join windlass_ready r on r.id = j.id
left join windlass_finished f on f.id = j.id
left join windlass_leases c on c.id = j.id;

CREATE TABLE windlass_jobs (
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

CREATE INDEX windlass_jobs_entity on windlass_jobs (entity_type, entity_id, id) where entity_type is not null;

CREATE TABLE windlass_kinds (
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

CREATE VIEW windlass_leases as
select c.first_id + e.value as id, c.token, c.worker, c.queue, c.attempt, c.crashes, c.alone, c.claimed_at
from windlass_claims c, json_each(c.ids) e;

CREATE TABLE windlass_logs (
    seq     integer primary key,
    job_id  integer not null,
    attempt integer not null,
    at      integer not null,
    line    text not null
) strict;

CREATE INDEX windlass_logs_job on windlass_logs (job_id, seq);

CREATE TABLE windlass_migrations (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at integer not null
) strict;

CREATE TABLE windlass_progress (
    job_id  integer primary key,
    percent real not null,
    message text,
    at      integer not null
) strict;

CREATE TABLE windlass_queues (
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

CREATE TABLE windlass_ready (
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

CREATE UNIQUE INDEX windlass_ready_id on windlass_ready (id);

CREATE INDEX windlass_ready_suspect on windlass_ready (queue, priority, run_at, id) where suspect is not null;

CREATE UNIQUE INDEX windlass_ready_unique on windlass_ready (unique_key) where unique_key is not null;

CREATE TABLE windlass_rollups (
    seq       integer primary key,
    minute    integer not null,
    queue     integer not null,
    kind      integer not null,
    completed integer not null,
    retried   integer not null,
    dead      integer not null,
    run_us    integer not null,
    latency   text not null check (json_valid(latency))
) strict;

CREATE INDEX windlass_rollups_minute on windlass_rollups (minute);

CREATE TABLE windlass_types (
    id         integer primary key,
    name       text not null unique,
    spec       text not null check (json_valid(spec)),
    updated_at integer not null
) strict;

CREATE TABLE windlass_vectors (
    entity integer not null,
    space  text not null,
    hash   blob not null,
    vector blob not null,
    primary key (entity, space)
) strict, without rowid;

CREATE TABLE windlass_workers (
    id           integer primary key autoincrement,
    label        text not null,
    queues       text not null check (json_valid(queues)),
    lease_us     integer not null,
    started_at   integer not null,
    heartbeat_at integer not null,
    beats        integer not null default 0,
    expires_at   integer not null
) strict;

