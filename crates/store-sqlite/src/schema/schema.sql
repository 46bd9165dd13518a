CREATE VIEW windlass_ai_usage_tracking as
select c.month || '-01' as month, c.key as provider, c.requests as total_requests,
       c.tokens_in as total_tokens_input, c.tokens_out as total_tokens_output,
       cast(round(c.amount / 1e4) as integer) as estimated_cost_cents,
       cast(round(m.limit_amount / 1e4) as integer) as budget_limit_cents,
       strftime('%Y-%m-%dT%H:%M:%fZ', c.updated_at / 1e6, 'unixepoch') as updated_at
from windlass_budget_costs c
join windlass_budgets b on b.id = c.budget and b.name = 'ai'
join windlass_budget_months m on m.budget = c.budget and m.month = c.month
where c.dimension = 'provider';

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

CREATE TABLE windlass_audit (
    seq     integer primary key autoincrement,
    at      integer not null,
    actor   text not null,
    act     text not null,
    subject text not null,
    detail  text not null check (json_valid(detail))
) strict;

CREATE INDEX windlass_audit_act on windlass_audit (act, seq);

CREATE INDEX windlass_audit_actor on windlass_audit (actor, seq);

CREATE INDEX windlass_audit_at on windlass_audit (at);

CREATE INDEX windlass_audit_subject on windlass_audit (subject, seq);

CREATE TABLE windlass_backups (
    digest      text primary key,
    file        text not null,
    taken_at    integer not null,
    rows        integer not null,
    bytes       integer not null,
    verified_at integer
) strict;

CREATE TABLE windlass_budget_alerts (
    budget  integer not null,
    month   text not null,
    percent integer not null,
    level   text not null check (level in ('INFO', 'WARNING', 'CRITICAL')),
    at      integer not null,
    primary key (budget, month, percent)
) strict, without rowid;

CREATE TABLE windlass_budget_costs (
    budget     integer not null,
    month      text not null,
    dimension  text not null check (dimension in ('kind', 'user', 'provider')),
    key        text not null,
    requests   integer not null,
    tokens_in  integer not null,
    tokens_out integer not null,
    amount     integer not null,
    updated_at integer not null,
    primary key (budget, month, dimension, key)
) strict, without rowid;

CREATE TABLE windlass_budget_months (
    budget          integer not null references windlass_budgets (id),
    month           text not null check (month glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]'),
    limit_amount    integer check (limit_amount >= 0),
    limit_tokens    integer check (limit_tokens >= 0),
    live_amount     integer not null default 0 check (live_amount in (0, 1)),
    live_tokens     integer not null default 0 check (live_tokens in (0, 1)),
    settled_amount  integer not null default 0 check (settled_amount >= 0),
    settled_tokens  integer not null default 0 check (settled_tokens >= 0),
    reserved_amount integer not null default 0 check (reserved_amount >= 0),
    reserved_tokens integer not null default 0 check (reserved_tokens >= 0),
    updated_at      integer not null,
    primary key (budget, month)
) strict, without rowid;

CREATE TABLE windlass_budgets (
    id         integer primary key,
    name       text not null unique,
    currency   text not null,
    amount     integer check (amount >= 0),
    tokens     integer check (tokens >= 0),
    thresholds text not null check (json_valid(thresholds)),
    check (amount is not null or tokens is not null)
) strict;

CREATE TABLE windlass_cancels (
    job_id       integer primary key,
    requested_at integer not null
) strict;

CREATE TABLE windlass_claims (
    token      integer primary key autoincrement,
    worker     integer not null,
    queue      integer not null,
    attempt    integer not null check (attempt > 0),
    suspicion  integer not null default 0,
    alone      integer not null check (alone in (0, 1)),
    claimed_at integer not null,
    place      integer not null,
    first_id   integer not null,
    ids        text not null check (json_array_length(ids) > 0),
    places     text,
    limited    integer not null default 0 check (limited in (0, 1)),
    check (alone = 0 or json_array_length(ids) = 1)
) strict;

CREATE INDEX windlass_claims_worker on windlass_claims (worker);

CREATE VIEW windlass_delayed_jobs as
select j.id, q.name as queue, k.name as job_type, j.priority, cast(j.payload as text) as payload,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.run_at / 1e6, 'unixepoch') as scheduled_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.locked_at / 1e6, 'unixepoch') as locked_at, j.locked_by,
       j.used + j.state - 1 as attempts, j.max_attempts, j.error as last_error,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1e6, 'unixepoch') as created_at
from windlass_open_jobs j
join windlass_kinds k on k.id = j.kind
join windlass_queues q on q.id = j.queue;

CREATE VIEW windlass_delayed_jobs_dlq as
select j.id, q.name as queue, k.name as job_type, j.priority, cast(j.payload as text) as payload,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.run_at / 1e6, 'unixepoch') as scheduled_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.locked_at / 1e6, 'unixepoch') as locked_at, j.locked_by,
       j.used as attempts, j.max_attempts, j.error as last_error,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1e6, 'unixepoch') as created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.finished_at / 1e6, 'unixepoch') as failed_at
from windlass_ended_jobs j
join windlass_kinds k on k.id = j.kind
join windlass_queues q on q.id = j.queue
where j.state in (4, 5);

CREATE TABLE windlass_deleted (
    only    integer primary key check (only = 1),
    last_id integer not null
) strict;

CREATE VIEW windlass_embedding_queue as
select cast(j.id as text) as id,
       json_set(cast(j.payload as text) -> '$.fields', '$.id', j.entity_id, '$.entityType', j.entity_type)
           as entityData,
       case j.state when 1 then 'pending' when 2 then 'processing' when 3 then 'completed' else 'failed' end as status,
       10 - j.priority as priority, j.used as retryCount, j.max_attempts - 1 as maxRetries, j.error as lastError,
       j.created_at / 1000 as createdAt,
       j.run_at / 1000 as scheduledFor,
       j.started_at / 1000 as startedAt,
       case when j.state = 3 then j.finished_at end / 1000 as completedAt
from (select * from windlass_open_jobs union all select * from windlass_ended_jobs) j
join windlass_kinds k on k.id = j.kind and k.name in ('INDEX_ASYNC', 'INDEX_BATCH')
where j.state < 6;

CREATE VIEW windlass_ended_jobs as
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, j.priority,
       f.state as state, f.attempt - case f.state when 3 then 1 else 0 end as used,
       coalesce(f.started_at, j.created_at) as run_at, f.started_at, f.finished_at, f.error,
       case when f.error is not null then f.finished_at end as error_at, null as locked_at, null as locked_by,
       null as lock_expires_at, f.finished_at as updated_at
from windlass_finished f
join windlass_jobs j on j.id = f.id;

CREATE TABLE windlass_entities (
    no              integer primary key,
    type            integer not null references windlass_types (id),
    id              text not null,
    version         integer not null check (version > 0),
    seq             integer not null,
    fields          text check (json_valid(fields)),
    hash            blob,
    state           integer not null check (state between 1 and 4),
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
    state       integer not null check (state between 3 and 7),
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
    created_at  integer not null,
    answer      text
) strict, without rowid;

CREATE INDEX windlass_idempotency_job on windlass_idempotency (job_id);

CREATE VIEW windlass_indexing_queue as
select cast(j.id as text) as id,
       case cast(j.payload as text) ->> '$.version' when 1 then 'CREATE' else 'UPDATE' end as operation,
       j.entity_type, j.entity_id, null as vector_id, cast(j.payload as text) -> '$.fields' as content,
       json_object('version', cast(j.payload as text) ->> '$.version') as metadata,
       case k.name when 'INDEX_BATCH' then 'BATCH' else 'ASYNC' end as priority,
       case j.state when 1 then 'PENDING' when 2 then 'PROCESSING' when 3 then 'COMPLETED' when 4 then 'FAILED'
                    else 'DEAD_LETTER' end as status,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1e6, 'unixepoch') as requested_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.run_at / 1e6, 'unixepoch') as scheduled_for,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.started_at / 1e6, 'unixepoch') as started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.finished_at / 1e6, 'unixepoch') as processed_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.updated_at / 1e6, 'unixepoch') as updated_at,
       j.used as retry_count, j.max_attempts as max_retries, j.error as error_message,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.error_at / 1e6, 'unixepoch') as last_error_at, j.locked_by as processing_node,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.locked_at / 1e6, 'unixepoch') as lock_acquired_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.lock_expires_at / 1e6, 'unixepoch') as lock_expires_at
from (select * from windlass_open_jobs union all select * from windlass_ended_jobs) j
join windlass_kinds k on k.id = j.kind and k.name in ('INDEX_ASYNC', 'INDEX_BATCH')
where j.state < 6;

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
       coalesce(c.worker, f.worker) as worker, f.error, r.suspicion,
       j.unique_key, j.concurrency_key, j.tags, j.entity_type, j.entity_id, j.parent_id
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
    created_at      integer not null,
    timeout_us      integer,
    parent_id       integer,
    lane            integer,
    payload         blob not null,
    unique_key      text,
    unique_until    text check (unique_until in ('started', 'finished')),
    concurrency_key text,
    tags            text,
    entity_type     text,
    entity_id       text,
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
    description     text not null,
    resource        text,
    at_most_once    integer not null default 0 check (at_most_once in (0, 1)),
    configured      text not null default '{}',
    live            text not null default '{}',
    rate            text,
    key_concurrency integer not null default 1 check (key_concurrency > 0)
) strict;

CREATE TABLE windlass_lane_checks (
    kind  integer not null,
    at    integer not null,
    lane  integer not null,
    freed integer not null check (freed in (0, 1)),
    primary key (kind, at, lane)
) strict, without rowid;

CREATE TABLE windlass_lane_slots (
    lane integer not null,
    slot integer not null check (slot > 0),
    primary key (lane, slot)
) strict, without rowid;

CREATE VIEW windlass_leases as
select c.first_id + e.value as id, c.token, c.worker, c.queue, c.attempt, c.suspicion, c.alone, c.claimed_at
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

CREATE VIEW windlass_open_jobs as
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, r.priority,
       1 as state, r.attempt as used, r.run_at, null as started_at, null as finished_at,
       a.error, a.ended_at as error_at, null as locked_at, null as locked_by,
       null as lock_expires_at, coalesce(a.ended_at, j.created_at) as updated_at
from windlass_ready r
join windlass_jobs j on j.id = r.id
left join windlass_attempts a on a.id = j.id and a.token = (
    select max(l.token) from windlass_attempts l where l.id = j.id and l.error is not null)
union all
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, j.priority,
       2, c.attempt - 1, c.run_at, c.claimed_at, null, a.error, a.ended_at, c.claimed_at, w.label, w.expires_at,
       coalesce(w.heartbeat_at, c.claimed_at)
from (select c.first_id + e.value as id,
             c.place + coalesce(json_extract(c.places, '$[' || e.key || ']'), 0) as run_at,
             c.attempt, c.claimed_at, c.worker
      from windlass_claims c, json_each(c.ids) e) c
join windlass_jobs j on j.id = c.id
left join windlass_workers w on w.id = c.worker
left join windlass_attempts a on a.id = j.id and a.token = (
    select max(l.token) from windlass_attempts l where l.id = j.id and l.error is not null);

CREATE TABLE windlass_pack_migrations (
    pack       text not null,
    version    integer not null,
    name       text not null,
    checksum   text not null,
    applied_at integer not null,
    primary key (pack, version)
) strict, without rowid;

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
    cadence_us         integer not null,
    sla_us             integer,
    owner              text not null,
    colour             text not null,
    resource           text,
    paused             integer not null default 0 check (paused in (0, 1)),
    configured         text not null default '{}',
    live               text not null default '{}',
    concurrency        integer not null default 1 check (concurrency >= 0),
    concurrency_min    integer check (concurrency_min > 0),
    concurrency_max    integer check (concurrency_max >= concurrency_min),
    global_concurrency integer check (global_concurrency > 0),
    depth_cap          integer check (depth_cap >= 0),
    boost_after_us     integer check (boost_after_us > 0)
) strict;

CREATE TABLE windlass_rates (
    kind        integer primary key,
    given_until integer not null
) strict;

CREATE TABLE windlass_ready (
    queue      integer not null,
    priority   integer not null check (priority between 0 and 10),
    run_at     integer not null,
    id         integer not null,
    kind       integer not null,
    attempt    integer not null default 0 check (attempt >= 0),
    suspicion  integer not null default 0 check (suspicion >= 0),
    unique_key text,
    lane       integer check (queue >= 0 or lane is not null),
    primary key (queue, priority, run_at, id)
) strict, without rowid;

CREATE INDEX windlass_ready_blocked on windlass_ready (lane, priority, run_at, id) where queue < 0;

CREATE UNIQUE INDEX windlass_ready_id on windlass_ready (id);

CREATE INDEX windlass_ready_suspects on windlass_ready (queue, suspicion, priority, run_at, id) where suspicion > 0;

CREATE UNIQUE INDEX windlass_ready_unique on windlass_ready (unique_key) where unique_key is not null;

CREATE TABLE windlass_reservations (
    id      integer primary key autoincrement,
    budget  integer not null,
    month   text not null,
    job_id  integer not null,
    token   integer not null,
    kind    text not null,
    user_id text,
    amount  integer not null check (amount >= 0),
    tokens  integer not null check (tokens >= 0),
    at      integer not null
) strict;

CREATE TABLE windlass_resources (
    name       text primary key,
    configured text not null default '{}',
    live       text not null default '{}',
    permits    integer not null default 1 check (permits > 0)
) strict, without rowid;

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

CREATE TABLE windlass_schedules (
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

CREATE INDEX windlass_schedules_next on windlass_schedules (next_at) where paused = 0 and next_at is not null;

CREATE TABLE windlass_types (
    id         integer primary key,
    name       text not null unique,
    spec       text not null check (json_valid(spec)),
    updated_at integer not null
) strict;

CREATE TABLE windlass_unique_keys (
    key    text primary key,
    job_id integer not null
) strict, without rowid;

CREATE INDEX windlass_unique_keys_job on windlass_unique_keys (job_id);

CREATE TABLE windlass_unique_windows (
    key    text primary key,
    job_id integer not null,
    until  integer not null
) strict, without rowid;

CREATE INDEX windlass_unique_windows_job on windlass_unique_windows (job_id);

CREATE INDEX windlass_unique_windows_until on windlass_unique_windows (until);

CREATE TABLE windlass_usage_ledger (
    seq         integer primary key autoincrement,
    at          integer not null,
    budget      integer not null,
    month       text not null,
    how         text not null check (how in ('settled', 'leaked', 'reset')),
    reservation integer unique,
    token       integer,
    job_id      integer,
    kind        text,
    user_id     text,
    provider    text,
    model       text,
    tokens_in   integer not null,
    tokens_out  integer not null,
    amount      integer not null,
    check ((how = 'reset') = (reservation is null)),
    check ((reservation is null) = (job_id is null) and (job_id is null) = (kind is null)
           and (job_id is null) = (token is null))
) strict;

CREATE INDEX windlass_usage_ledger_month on windlass_usage_ledger (budget, month, seq);

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
    expires_at   integer not null,
    stopping     integer not null default 0 check (stopping in (0, 1)),
    limits       text not null default '{}' check (json_valid(limits))
) strict;

CREATE TABLE windlass_workflow_jobs (
    workflow     integer not null,
    no           integer not null,
    job_id       integer not null,
    name         text not null,
    state        integer not null default 0 check (state between 0 and 7 and state <> 2),
    goes_on      integer not null check (goes_on in (0, 1)),
    parents      text not null check (json_valid(parents)),
    undoes       integer,
    run_at       integer,
    delay_us     integer,
    undo         text,
    undo_payload blob,
    children     text not null check (json_valid(children)),
    primary key (workflow, no),
    check ((undo is null) = (undo_payload is null))
) strict, without rowid;

CREATE UNIQUE INDEX windlass_workflow_jobs_job on windlass_workflow_jobs (job_id);

CREATE INDEX windlass_workflow_jobs_open on windlass_workflow_jobs (workflow, no) where state in (0, 1);

CREATE TABLE windlass_workflows (
    id         integer primary key,
    name       text,
    on_failure integer not null check (on_failure between 0 and 2),
    state      integer not null default 0 check (state between 0 and 5),
    created_at integer not null,
    ended_at   integer,
    check ((ended_at is null) = (state in (0, 4)))
) strict;

CREATE INDEX windlass_workflows_open on windlass_workflows (id) where ended_at is null;

