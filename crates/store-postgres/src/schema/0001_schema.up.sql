-- The whole schema. Nothing is released yet, so changes are made here instead of in further steps.

-- Registry -------------------------------------------------------------------------------------------------------
-- The limit columns hold the values in force; only the registry reads anything else. `configured` and `live` are the
-- layers behind them, a JSON object each: the configuration's values, and an operator's overrides.

create table windlass.queues (
    id                 integer generated always as identity primary key,
    name               text not null unique,
    priority           smallint not null check (priority between 0 and 10),
    cadence_us         bigint not null,
    sla_us             bigint,
    owner              text not null,
    colour             text not null,
    resource           text,
    paused             boolean not null default false,
    configured         text not null default '{}',
    live               text not null default '{}',
    concurrency        bigint not null default 1 check (concurrency >= 0),
    concurrency_min    bigint check (concurrency_min > 0),
    concurrency_max    bigint check (concurrency_max >= concurrency_min),
    global_concurrency bigint check (global_concurrency > 0),
    depth_cap          bigint check (depth_cap >= 0),
    boost_after_us     bigint check (boost_after_us > 0),
    -- Grows with each claim under a global concurrency. A claim counts the leased jobs, then takes jobs only if this
    -- has not changed: no lock is held between the two statements.
    limited_claims     bigint not null default 0
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
    description     text not null,
    resource        text,
    at_most_once    boolean not null default false,
    configured      text not null default '{}',
    live            text not null default '{}',
    rate            text,
    key_concurrency bigint not null default 1 check (key_concurrency > 0)
);

-- Something that a process has few of.
create table windlass.resources (
    name       text primary key,
    configured text not null default '{}',
    live       text not null default '{}',
    permits    bigint not null default 1 check (permits > 0)
);

-- One row per kind with a rate: tokens are leased up to this time. Each process updates it a few times a second.
create table windlass.rates (
    kind        integer primary key,
    given_until timestamptz not null
) with (fillfactor = 50);

-- Jobs -----------------------------------------------------------------------------------------------------------
-- A job is in exactly one of ready, claims and finished. Ids contain their creation time in milliseconds above bit 22,
-- so a partition by id is a partition by time.

create sequence windlass.job_seq;
create sequence windlass.token_seq;
create sequence windlass.worker_seq;

-- unique_until: how long the job holds unique_key.
-- lane: hash of kind and concurrency_key.
-- parent_id: the workflow of the job.
create table windlass.jobs (
    id              bigint primary key,
    kind            integer not null,
    queue           integer not null,
    priority        smallint not null check (priority between 0 and 10),
    max_attempts    smallint not null check (max_attempts > 0),
    created_at      timestamptz not null,
    timeout_us      bigint,
    parent_id       bigint,
    lane            bigint,
    payload         bytea not null,
    unique_key      text,
    unique_until    text check (unique_until in ('started', 'finished')),
    concurrency_key text,
    tags            text[],
    entity_type     text,
    entity_id       text,
    constraint jobs_entity_whole check ((entity_type is null) = (entity_id is null))
) partition by range (id);

create index jobs_entity on windlass.jobs (entity_type, entity_id, id) where entity_type is not null;
create table windlass.jobs_default partition of windlass.jobs default;

-- Waiting jobs in claim order.
-- attempt: attempts used so far.
-- suspicion: how often the job lost its worker (core::sweep).
-- slot: the slot of its lane that the job holds.
-- queue: negated for blocked jobs of a lane, 0 for jobs that wait for their workflow. Claims see neither.
create table windlass.ready (
    queue      integer not null,
    priority   smallint not null check (priority between 0 and 10),
    run_at     timestamptz not null,
    id         bigint not null,
    kind       integer not null,
    attempt    smallint not null default 0 check (attempt >= 0),
    suspicion  smallint not null default 0 check (suspicion >= 0),
    unique_key text,
    lane       bigint,
    slot       smallint,
    primary key (queue, priority, run_at, id),
    constraint ready_blocked_has_lane check (queue >= 0 or lane is not null)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create unique index ready_id on windlass.ready (id);
create unique index ready_unique on windlass.ready (unique_key) where unique_key is not null;
create index ready_suspects on windlass.ready (queue, suspicion, priority, run_at, id) where suspicion > 0;
-- Written as -queue > 0 so that no other index of ready matches the condition.
create index ready_blocked on windlass.ready (lane, priority, run_at, id) where -queue > 0;

-- Slots in use. The key keeps a lane within its limit.
create table windlass.lane_slots (
    lane bigint not null,
    slot smallint not null check (slot > 0),
    primary key (lane, slot)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Claims from `at` on have to fill the lane. freed: a slot became free at that time.
create table windlass.lane_checks (
    kind  integer not null,
    at    timestamptz not null,
    lane  bigint not null,
    freed boolean not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create index lane_checks_at on windlass.lane_checks (kind, at);

-- One row per batch leased with the same attempt number and suspicion. ids shrinks as jobs settle; the row is deleted
-- with the last.
-- run_ats: the run_at of each job in ready, so that it can be put back there.
-- slots: the slot that each job holds; null when no job of the batch has a lane.
-- About 500 of each fit into the row: moving them to the TOAST table would cost more than the claim.
create table windlass.claims (
    token      bigint primary key,
    worker     bigint not null,
    queue      integer not null,
    attempt    smallint not null check (attempt > 0),
    suspicion  smallint not null default 0,
    alone      boolean not null,
    claimed_at timestamptz not null,
    ids        bigint[] not null check (cardinality(ids) > 0),
    run_ats    timestamptz[] not null,
    slots      smallint[],
    constraint claims_places_match check (cardinality(run_ats) = cardinality(ids)),
    constraint claims_slots_match check (cardinality(slots) = cardinality(ids)),
    constraint claims_alone_is_one check (not alone or cardinality(ids) = 1)
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
alter table windlass.claims alter column ids set storage external,
    alter column run_ats set storage external, alter column slots set storage external;

create index claims_queue on windlass.claims (queue);

-- state: 3 completed, 4 failed, 5 dead_letter, 6 cancelled, 7 superseded.
-- The row is also the record of the last attempt. A job that ended while it waited has no token.
create table windlass.finished (
    id          bigint primary key,
    state       smallint not null check (state between 3 and 7),
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

-- Unique keys that are held until their job has ended. A key that is held until its job starts is in ready alone.
create table windlass.unique_keys (
    key    text primary key,
    job_id bigint not null
);

create index unique_keys_job on windlass.unique_keys (job_id);

-- Unique keys whose window lasts: until then another job with the key and a window is a duplicate of job_id.
create table windlass.unique_windows (
    key    text primary key,
    job_id bigint not null,
    until  timestamptz not null
);

create index unique_windows_until on windlass.unique_windows (until);
create index unique_windows_job on windlass.unique_windows (job_id);

-- A key may also belong to an entity write: then job_id is 0 and answer is the result of the write.
create table windlass.idempotency (
    key         text primary key,
    job_id      bigint not null,
    fingerprint bytea not null,
    created_at  timestamptz not null,
    answer      text
);

-- Workers --------------------------------------------------------------------------------------------------------

-- limits: what the worker last reported about its own limits. stopping: it announced its shutdown.
-- lock_key: the advisory lock that its process holds while it lives; null where it has none.
create table windlass.workers (
    id           bigint primary key,
    label        text not null,
    queues       integer[] not null,
    lease_us     bigint not null,
    started_at   timestamptz not null,
    heartbeat_at timestamptz not null,
    beats        bigint not null default 0,
    expires_at   timestamptz not null,
    stopping     boolean not null default false,
    limits       text not null default '{}',
    lock_key     bigint
) with (fillfactor = 50);

-- Statistics -----------------------------------------------------------------------------------------------------

create table windlass.rollups (
    minute    timestamptz not null,
    queue     integer not null,
    kind      integer not null,
    completed bigint not null,
    retried   bigint not null,
    dead      bigint not null,
    run_us    bigint not null,
    latency   bigint[] not null
);
create index rollups_minute on windlass.rollups (minute);

-- Workflows ------------------------------------------------------------------------------------------------------

-- on_failure: 0 stop, 1 continue, 2 compensate. state: 0 running, 1 completed, 2 failed, 3 cancelled, 4 compensating,
-- 5 compensated. The row is locked for every decision about its jobs.
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

-- state: 0 waiting, 1 in its queue or running, else the state it ended in. It stays when the job is pruned.
-- parents, children: the numbers (no) of the jobs before and after it.
-- undoes: the number of the job that this one compensates. undo: the job that compensates this one.
-- run_at, delay_us: not before this time, and this long after the release.
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
    children     integer[] not null,
    primary key (workflow, no),
    constraint workflow_jobs_undo_whole check ((undo is null) = (undo_payload is null))
);

create unique index workflow_jobs_job on windlass.workflow_jobs (job_id);
create index workflow_jobs_open on windlass.workflow_jobs (workflow, no) where state in (0, 1);

-- Schedules ------------------------------------------------------------------------------------------------------

-- last_tick: the latest tick that was handled. next_at: when to check again. A tick is a compare-and-set of last_tick,
-- in the transaction that enqueues its jobs.
-- revision: grows with every other change, so that no process ticks by an outdated description.
-- spec: what is enqueued and when, with its own calendars. created_at: intervals count from here.
-- Names compare by bytes, as on SQLite. spec is json, not jsonb: two descriptions are equal when their texts are.
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

-- Budgets --------------------------------------------------------------------------------------------------------
-- Amounts are millionths of the currency's unit. Months are in UTC, such as 2026-11.

create table windlass.budgets (
    id         integer generated always as identity primary key,
    name       text collate "C" not null unique,
    currency   text not null,
    amount     bigint check (amount >= 0),
    tokens     bigint check (tokens >= 0),
    thresholds json not null,
    constraint budgets_bounds_something check (amount is not null or tokens is not null)
);

-- One row per budget and month: its sums and its lock.
-- It is updated twice per provider call. That is affordable: such a call costs money and takes seconds, and this row
-- decides whether it may be made.
-- live_*: an operator set the limit of this month, and the configuration does not change it.
create table windlass.budget_months (
    budget          integer not null references windlass.budgets (id),
    month           text collate "C" not null check (month ~ '^[0-9]{4}-[0-9]{2}$'),
    limit_amount    bigint check (limit_amount >= 0),
    limit_tokens    bigint check (limit_tokens >= 0),
    live_amount     boolean not null default false,
    live_tokens     boolean not null default false,
    settled_amount  bigint not null default 0 check (settled_amount >= 0),
    settled_tokens  bigint not null default 0 check (settled_tokens >= 0),
    reserved_amount bigint not null default 0 check (reserved_amount >= 0),
    reserved_tokens bigint not null default 0 check (reserved_tokens >= 0),
    updated_at      timestamptz not null,
    primary key (budget, month)
) with (fillfactor = 50);

-- Calls in progress: the most that each may cost, and the lease it was made under. Ids are never reused: they identify
-- the calls in the ledger.
create table windlass.reservations (
    id      bigint generated always as identity primary key,
    budget  integer not null,
    month   text collate "C" not null,
    job_id  bigint not null,
    token   bigint not null,
    kind    text not null,
    user_id text,
    amount  bigint not null check (amount >= 0),
    tokens  bigint not null check (tokens >= 0),
    at      timestamptz not null
);

-- Bookings. Rows are added and never changed. Those of a month add up to its settled sums.
create table windlass.usage_ledger (
    seq         bigint generated always as identity primary key,
    at          timestamptz not null,
    budget      integer not null,
    month       text collate "C" not null,
    how         text not null check (how in ('settled', 'leaked', 'reset')),
    reservation bigint unique,
    token       bigint,
    job_id      bigint,
    kind        text,
    user_id     text,
    provider    text,
    model       text,
    tokens_in   bigint not null,
    tokens_out  bigint not null,
    amount      bigint not null,
    constraint usage_ledger_reset_has_no_call check ((how = 'reset') = (reservation is null)),
    constraint usage_ledger_call_whole check (num_nulls(reservation, token, job_id, kind) in (0, 4))
);

create index usage_ledger_month on windlass.usage_ledger (budget, month, seq);

-- The ledger's sums by kind, user and provider, so that reports need not read a month of it. Written under the month's
-- lock.
create table windlass.budget_costs (
    budget     integer not null,
    month      text collate "C" not null,
    dimension  text not null check (dimension in ('kind', 'user', 'provider')),
    key        text collate "C" not null,
    requests   bigint not null,
    tokens_in  bigint not null,
    tokens_out bigint not null,
    amount     bigint not null,
    updated_at timestamptz not null,
    primary key (budget, month, dimension, key)
) with (fillfactor = 70);

-- Alerts that fired. The key makes each fire once per month.
create table windlass.budget_alerts (
    budget  integer not null,
    month   text collate "C" not null,
    percent smallint not null,
    level   text not null check (level in ('INFO', 'WARNING', 'CRITICAL')),
    at      timestamptz not null,
    primary key (budget, month, percent)
);

-- Audit ----------------------------------------------------------------------------------------------------------
-- Actions of operators, written in the same transaction.

create table windlass.audit (
    seq     bigint generated always as identity primary key,
    at      timestamptz not null,
    actor   text not null,
    act     text not null,
    subject text not null,
    detail  json not null
);

create index audit_actor on windlass.audit (actor, seq);
create index audit_act on windlass.audit (act collate "C", seq);
create index audit_subject on windlass.audit (subject, seq);
create index audit_at on windlass.audit (at);

-- Entities -------------------------------------------------------------------------------------------------------

create table windlass.types (
    id         integer generated always as identity primary key,
    name       text not null unique,
    spec       json not null,
    updated_at timestamptz not null
);

-- One row per entity. A deleted one stays as a tombstone without content, so that its version never restarts.
-- changed: the position in the change feed, which is the transaction that changed the row last. Transactions do not
-- commit in the order in which they begin, so a reader compares it with the snapshot of its last read, never with the
-- largest value it saw.
-- hash: of the searched text.
-- state: 1 pending, 2 indexed (a vector of this hash is stored), 3 failed, 4 deleted.
-- waiting: the strategy of the current box, 2 async or 3 batch.
-- type: a row of types, which are never deleted. A foreign key would lock that row once per entity.
-- fields is json, not jsonb, to keep the order of its keys. Ids compare by bytes, as on SQLite.
create table windlass.entities (
    no              bigint generated always as identity primary key,
    type            integer not null,
    id              text collate "C" not null,
    version         bigint not null check (version > 0),
    changed         xid8 not null,
    fields          json,
    hash            bytea,
    state           smallint not null check (state in (1, 2, 3, 4)),
    waiting         smallint check (waiting in (2, 3)),
    indexed_version bigint,
    job_id          bigint,
    error           text,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    constraint entities_tombstone_empty check ((fields is null) = (state = 4)),
    constraint entities_hash_of_fields check ((fields is null) = (hash is null))
);

create unique index entities_id on windlass.entities (type, id);
create index entities_changed on windlass.entities (changed, no);
create index entities_pending on windlass.entities (no) where state = 1;

-- The vector of an entity in a space, and the hash of its content. Vectors do not compress.
create table windlass.vectors (
    entity bigint not null,
    space  text not null,
    hash   bytea not null,
    vector bytea not null,
    primary key (entity, space)
);
alter table windlass.vectors alter column vector set storage external;

-- Upkeep ---------------------------------------------------------------------------------------------------------

-- Backups of this database, identified by the SHA-256 of their file.
create table windlass.backups (
    digest      text primary key,
    file        text not null,
    taken_at    timestamptz not null,
    rows        bigint not null,
    bytes       bigint not null,
    verified_at timestamptz
);

-- Applied migrations of packs. A binary ignores the rows of packs that it does not contain.
create table windlass.pack_migrations (
    pack       text not null,
    version    bigint not null,
    name       text not null,
    checksum   bytea not null,
    applied_at timestamptz not null,
    primary key (pack, version)
);

-- Views for people -----------------------------------------------------------------------------------------------

create view windlass.job_view as
select j.id, k.name as kind, q.name as queue,
       case when r.id is not null then case when r.run_at > statement_timestamp() then 'scheduled' else 'pending' end
            when c.id is not null then 'running'
            else case f.state when 3 then 'completed' when 4 then 'failed' when 5 then 'dead_letter'
                              when 6 then 'cancelled' when 7 then 'superseded' end
       end as state,
       coalesce(r.priority, j.priority) as priority,
       coalesce(r.attempt, c.attempt, f.attempt) as attempt, j.max_attempts,
       r.run_at, j.created_at, coalesce(c.claimed_at, f.started_at) as started_at, f.finished_at,
       coalesce(c.worker, f.worker) as worker, f.error, r.suspicion,
       j.unique_key, j.concurrency_key, j.tags, j.entity_type, j.entity_id, j.parent_id
from windlass.jobs j
join windlass.kinds k on k.id = j.kind
join windlass.queues q on q.id = j.queue
left join windlass.ready r on r.id = j.id
left join windlass.finished f on f.id = j.id
left join (select i.id, c.attempt, c.claimed_at, c.worker from windlass.claims c, unnest(c.ids) i (id)) c
       on c.id = j.id;

-- Every run of a job: those that did not finish it, the one that did, and the current one.
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

-- Views with the table and column names of the applications that Windlass replaces; docs/views.md explains each
-- column. Read only: changes are made with verbs.

-- Jobs that wait (state 1) or run (2), with the columns of the views below.
-- used: runs that counted and did not succeed.
create view windlass.open_jobs as
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, r.priority,
       1 as state, r.attempt::integer as used, r.run_at,
       null::timestamptz as started_at, null::timestamptz as finished_at,
       a.error, a.ended_at as error_at, null::timestamptz as locked_at, null::text as locked_by,
       null::timestamptz as lock_expires_at, coalesce(a.ended_at, j.created_at) as updated_at
from windlass.ready r
join windlass.jobs j on j.id = r.id
left join lateral (select a.error, a.ended_at from windlass.attempts a
                   where a.id = j.id and a.error is not null order by a.token desc limit 1) a on true
union all
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, j.priority,
       2, c.attempt - 1, c.run_at, c.claimed_at, null::timestamptz, a.error, a.ended_at, c.claimed_at,
       w.label, w.expires_at,
       coalesce(w.heartbeat_at, c.claimed_at)
from (select i.id, i.run_at, c.attempt, c.claimed_at, c.worker
      from windlass.claims c cross join unnest(c.ids, c.run_ats) i (id, run_at)) c
join windlass.jobs j on j.id = c.id
left join windlass.workers w on w.id = c.worker
left join lateral (select a.error, a.ended_at from windlass.attempts a
                   where a.id = j.id and a.error is not null order by a.token desc limit 1) a on true;

-- The same columns for ended jobs.
create view windlass.ended_jobs as
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, j.priority,
       f.state::integer as state, f.attempt - case f.state when 3 then 1 else 0 end as used,
       coalesce(f.started_at, j.created_at) as run_at, f.started_at, f.finished_at, f.error,
       case when f.error is not null then f.finished_at end as error_at,
       null::timestamptz as locked_at, null::text as locked_by,
       null::timestamptz as lock_expires_at, f.finished_at as updated_at
from windlass.finished f
join windlass.jobs j on j.id = f.id;

-- Boxes, without those that a newer one replaced or an operator cancelled.
create view windlass.indexing_queue as
select j.id::text as id,
       case convert_from(j.payload, 'UTF8')::json ->> 'version' when '1' then 'CREATE' else 'UPDATE' end as operation,
       j.entity_type, j.entity_id, null::text as vector_id,
       (convert_from(j.payload, 'UTF8')::json -> 'fields')::text as content,
       jsonb_build_object('version', (convert_from(j.payload, 'UTF8')::json ->> 'version')::bigint) as metadata,
       case k.name when 'INDEX_BATCH' then 'BATCH' else 'ASYNC' end as priority,
       case j.state when 1 then 'PENDING' when 2 then 'PROCESSING' when 3 then 'COMPLETED' when 4 then 'FAILED'
                    else 'DEAD_LETTER' end as status,
       j.created_at as requested_at,
       j.run_at as scheduled_for,
       j.started_at as started_at,
       j.finished_at as processed_at,
       j.updated_at as updated_at,
       j.used as retry_count, j.max_attempts as max_retries, j.error as error_message,
       j.error_at as last_error_at, j.locked_by as processing_node,
       j.locked_at as lock_acquired_at,
       j.lock_expires_at as lock_expires_at
from (select * from windlass.open_jobs union all select * from windlass.ended_jobs) j
join windlass.kinds k on k.id = j.kind and k.name in ('INDEX_ASYNC', 'INDEX_BATCH')
where j.state < 6;

-- The same boxes, with times in milliseconds. A larger priority is more urgent.
create view windlass.embedding_queue as
select j.id::text as id,
       (convert_from(j.payload, 'UTF8')::jsonb -> 'fields')
           || jsonb_build_object('id', j.entity_id, 'entityType', j.entity_type) as entityData,
       case j.state when 1 then 'pending' when 2 then 'processing' when 3 then 'completed' else 'failed' end as status,
       10 - j.priority as priority, j.used as retryCount, j.max_attempts - 1 as maxRetries, j.error as lastError,
       (extract(epoch from j.created_at) * 1000)::bigint as createdAt,
       (extract(epoch from j.run_at) * 1000)::bigint as scheduledFor,
       (extract(epoch from j.started_at) * 1000)::bigint as startedAt,
       (extract(epoch from case when j.state = 3 then j.finished_at end) * 1000)::bigint as completedAt
from (select * from windlass.open_jobs union all select * from windlass.ended_jobs) j
join windlass.kinds k on k.id = j.kind and k.name in ('INDEX_ASYNC', 'INDEX_BATCH')
where j.state < 6;

-- Jobs that wait or run.
create view windlass.delayed_jobs as
select j.id, q.name as queue, k.name as job_type, j.priority, convert_from(j.payload, 'UTF8')::jsonb as payload,
       j.run_at as scheduled_at,
       j.locked_at as locked_at, j.locked_by,
       j.used + j.state - 1 as attempts, j.max_attempts, j.error as last_error,
       j.created_at as created_at
from windlass.open_jobs j
join windlass.kinds k on k.id = j.kind
join windlass.queues q on q.id = j.queue;

-- Jobs that will not run again unless an operator retries them.
create view windlass.delayed_jobs_dlq as
select j.id, q.name as queue, k.name as job_type, j.priority, convert_from(j.payload, 'UTF8')::jsonb as payload,
       j.run_at as scheduled_at,
       j.locked_at as locked_at, j.locked_by,
       j.used as attempts, j.max_attempts, j.error as last_error,
       j.created_at as created_at,
       j.finished_at as failed_at
from windlass.ended_jobs j
join windlass.kinds k on k.id = j.kind
join windlass.queues q on q.id = j.queue
where j.state in (4, 5);

-- Provider costs of the budget `ai`.
create view windlass.ai_usage_tracking as
select to_date(c.month, 'YYYY-MM') as month, c.key as provider, c.requests as total_requests,
       c.tokens_in as total_tokens_input, c.tokens_out as total_tokens_output,
       round(c.amount / 1e4)::bigint as estimated_cost_cents,
       round(m.limit_amount / 1e4)::bigint as budget_limit_cents,
       c.updated_at
from windlass.budget_costs c
join windlass.budgets b on b.id = c.budget and b.name = 'ai'
join windlass.budget_months m on m.budget = c.budget and m.month = c.month
where c.dimension = 'provider';
