table attempts
    id bigint not null
    token bigint not null
    attempt smallint not null
    worker bigint
    started_at timestamp with time zone not null
    ended_at timestamp with time zone not null
    outcome text not null
    error text
    attempts_outcome_check: CHECK ((outcome = ANY (ARRAY['retry'::text, 'snooze'::text, 'handed_back'::text, 'lost'::text, 'failed'::text, 'dead_letter'::text, 'cancelled'::text])))
    attempts_pkey: PRIMARY KEY (id, token)
table audit
    seq bigint not null identity
    at timestamp with time zone not null
    actor text not null
    act text not null
    subject text not null
    detail json not null
    audit_pkey: PRIMARY KEY (seq)
sequence audit_seq_seq
table backups
    digest text not null
    file text not null
    taken_at timestamp with time zone not null
    rows bigint not null
    bytes bigint not null
    verified_at timestamp with time zone
    backups_pkey: PRIMARY KEY (digest)
table budget_alerts
    budget integer not null
    month text not null
    percent smallint not null
    level text not null
    at timestamp with time zone not null
    budget_alerts_level_check: CHECK ((level = ANY (ARRAY['INFO'::text, 'WARNING'::text, 'CRITICAL'::text])))
    budget_alerts_pkey: PRIMARY KEY (budget, month, percent)
table budget_costs with (fillfactor=70)
    budget integer not null
    month text not null
    dimension text not null
    key text not null
    requests bigint not null
    tokens_in bigint not null
    tokens_out bigint not null
    amount bigint not null
    updated_at timestamp with time zone not null
    budget_costs_dimension_check: CHECK ((dimension = ANY (ARRAY['kind'::text, 'user'::text, 'provider'::text])))
    budget_costs_pkey: PRIMARY KEY (budget, month, dimension, key)
table budget_months with (fillfactor=50)
    budget integer not null
    month text not null
    limit_amount bigint
    limit_tokens bigint
    live_amount boolean not null default false
    live_tokens boolean not null default false
    settled_amount bigint not null default 0
    settled_tokens bigint not null default 0
    reserved_amount bigint not null default 0
    reserved_tokens bigint not null default 0
    updated_at timestamp with time zone not null
    budget_months_budget_fkey: FOREIGN KEY (budget) REFERENCES windlass.budgets(id)
    budget_months_limit_amount_check: CHECK ((limit_amount >= 0))
    budget_months_limit_tokens_check: CHECK ((limit_tokens >= 0))
    budget_months_month_check: CHECK ((month ~ '^[0-9]{4}-[0-9]{2}$'::text))
    budget_months_pkey: PRIMARY KEY (budget, month)
    budget_months_reserved_amount_check: CHECK ((reserved_amount >= 0))
    budget_months_reserved_tokens_check: CHECK ((reserved_tokens >= 0))
    budget_months_settled_amount_check: CHECK ((settled_amount >= 0))
    budget_months_settled_tokens_check: CHECK ((settled_tokens >= 0))
table budgets
    id integer not null identity
    name text not null
    currency text not null
    amount bigint
    tokens bigint
    thresholds json not null
    budgets_amount_check: CHECK ((amount >= 0))
    budgets_bounds_something: CHECK (((amount IS NOT NULL) OR (tokens IS NOT NULL)))
    budgets_name_key: UNIQUE (name)
    budgets_pkey: PRIMARY KEY (id)
    budgets_tokens_check: CHECK ((tokens >= 0))
sequence budgets_id_seq
table cancels
    job_id bigint not null
    requested_at timestamp with time zone not null
    cancels_pkey: PRIMARY KEY (job_id)
table claims with (toast_tuple_target=8160, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0)
    token bigint not null
    worker bigint not null
    queue integer not null
    attempt smallint not null
    suspicion smallint not null default 0
    alone boolean not null
    claimed_at timestamp with time zone not null
    ids bigint[] not null storage e
    run_ats timestamp with time zone[] not null storage e
    slots smallint[] storage e
    claims_alone_is_one: CHECK (((NOT alone) OR (cardinality(ids) = 1)))
    claims_attempt_check: CHECK ((attempt > 0))
    claims_ids_check: CHECK ((cardinality(ids) > 0))
    claims_pkey: PRIMARY KEY (token)
    claims_places_match: CHECK ((cardinality(run_ats) = cardinality(ids)))
    claims_slots_match: CHECK ((cardinality(slots) = cardinality(ids)))
table entities
    no bigint not null identity
    type integer not null
    id text not null
    version bigint not null
    changed xid8 not null
    fields json
    hash bytea
    state smallint not null
    waiting smallint
    indexed_version bigint
    job_id bigint
    error text
    created_at timestamp with time zone not null
    updated_at timestamp with time zone not null
    entities_hash_of_fields: CHECK (((fields IS NULL) = (hash IS NULL)))
    entities_pkey: PRIMARY KEY (no)
    entities_state_check: CHECK ((state = ANY (ARRAY[1, 2, 3, 4])))
    entities_tombstone_empty: CHECK (((fields IS NULL) = (state = 4)))
    entities_version_check: CHECK ((version > 0))
    entities_waiting_check: CHECK ((waiting = ANY (ARRAY[2, 3])))
sequence entities_no_seq
partitioned table finished
    id bigint not null
    state smallint not null
    attempt smallint not null
    token bigint
    worker bigint
    started_at timestamp with time zone
    finished_at timestamp with time zone not null
    result bytea
    error text
    finished_attempt_check: CHECK ((attempt >= 0))
    finished_pkey: PRIMARY KEY (id)
    finished_result_of_success: CHECK (((result IS NULL) OR (state = 3)))
    finished_run_whole: CHECK (((token IS NULL) = (worker IS NULL)))
    finished_state_check: CHECK (((state >= 3) AND (state <= 7)))
table finished_default
    id bigint not null
    state smallint not null
    attempt smallint not null
    token bigint
    worker bigint
    started_at timestamp with time zone
    finished_at timestamp with time zone not null
    result bytea
    error text
    finished_attempt_check: CHECK ((attempt >= 0))
    finished_default_pkey: PRIMARY KEY (id)
    finished_result_of_success: CHECK (((result IS NULL) OR (state = 3)))
    finished_run_whole: CHECK (((token IS NULL) = (worker IS NULL)))
    finished_state_check: CHECK (((state >= 3) AND (state <= 7)))
table idempotency
    key text not null
    job_id bigint not null
    fingerprint bytea not null
    created_at timestamp with time zone not null
    answer text
    idempotency_pkey: PRIMARY KEY (key)
sequence job_seq
partitioned table jobs
    id bigint not null
    kind integer not null
    queue integer not null
    priority smallint not null
    max_attempts smallint not null
    created_at timestamp with time zone not null
    timeout_us bigint
    parent_id bigint
    lane bigint
    payload bytea not null
    unique_key text
    unique_until text
    concurrency_key text
    tags text[]
    entity_type text
    entity_id text
    jobs_entity_whole: CHECK (((entity_type IS NULL) = (entity_id IS NULL)))
    jobs_max_attempts_check: CHECK ((max_attempts > 0))
    jobs_pkey: PRIMARY KEY (id)
    jobs_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
    jobs_unique_until_check: CHECK ((unique_until = ANY (ARRAY['started'::text, 'finished'::text])))
table jobs_default
    id bigint not null
    kind integer not null
    queue integer not null
    priority smallint not null
    max_attempts smallint not null
    created_at timestamp with time zone not null
    timeout_us bigint
    parent_id bigint
    lane bigint
    payload bytea not null
    unique_key text
    unique_until text
    concurrency_key text
    tags text[]
    entity_type text
    entity_id text
    jobs_default_pkey: PRIMARY KEY (id)
    jobs_entity_whole: CHECK (((entity_type IS NULL) = (entity_id IS NULL)))
    jobs_max_attempts_check: CHECK ((max_attempts > 0))
    jobs_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
    jobs_unique_until_check: CHECK ((unique_until = ANY (ARRAY['started'::text, 'finished'::text])))
table kinds
    id integer not null identity
    name text not null
    queue integer not null
    priority smallint
    max_attempts smallint not null
    timeout_us bigint
    backoff_base_us bigint not null
    backoff_cap_us bigint not null
    description text not null
    resource text
    at_most_once boolean not null default false
    configured text not null default '{}'::text
    live text not null default '{}'::text
    rate text
    key_concurrency bigint not null default 1
    kinds_key_concurrency_check: CHECK ((key_concurrency > 0))
    kinds_max_attempts_check: CHECK ((max_attempts > 0))
    kinds_name_key: UNIQUE (name)
    kinds_pkey: PRIMARY KEY (id)
    kinds_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
    kinds_queue_fkey: FOREIGN KEY (queue) REFERENCES windlass.queues(id)
sequence kinds_id_seq
table lane_checks with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0)
    kind integer not null
    at timestamp with time zone not null
    lane bigint not null
    freed boolean not null
table lane_slots with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0)
    lane bigint not null
    slot smallint not null
    lane_slots_pkey: PRIMARY KEY (lane, slot)
    lane_slots_slot_check: CHECK ((slot > 0))
table logs
    job_id bigint not null
    seq bigint not null identity
    attempt smallint not null
    at timestamp with time zone not null
    line text not null
    logs_pkey: PRIMARY KEY (job_id, seq)
sequence logs_seq_seq
table migrations
    version bigint not null
    name text not null
    checksum bytea not null
    applied_at timestamp with time zone not null
    migrations_pkey: PRIMARY KEY (version)
table pack_migrations
    pack text not null
    version bigint not null
    name text not null
    checksum bytea not null
    applied_at timestamp with time zone not null
    pack_migrations_pkey: PRIMARY KEY (pack, version)
table progress
    job_id bigint not null
    percent real not null
    message text
    at timestamp with time zone not null
    progress_pkey: PRIMARY KEY (job_id)
table queues
    id integer not null identity
    name text not null
    priority smallint not null
    cadence_us bigint not null
    sla_us bigint
    owner text not null
    colour text not null
    resource text
    paused boolean not null default false
    configured text not null default '{}'::text
    live text not null default '{}'::text
    concurrency bigint not null default 1
    concurrency_min bigint
    concurrency_max bigint
    global_concurrency bigint
    depth_cap bigint
    boost_after_us bigint
    limited_claims bigint not null default 0
    queues_boost_after_us_check: CHECK ((boost_after_us > 0))
    queues_check: CHECK ((concurrency_max >= concurrency_min))
    queues_concurrency_check: CHECK ((concurrency >= 0))
    queues_concurrency_min_check: CHECK ((concurrency_min > 0))
    queues_depth_cap_check: CHECK ((depth_cap >= 0))
    queues_global_concurrency_check: CHECK ((global_concurrency > 0))
    queues_name_key: UNIQUE (name)
    queues_pkey: PRIMARY KEY (id)
    queues_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
sequence queues_id_seq
table rates with (fillfactor=50)
    kind integer not null
    given_until timestamp with time zone not null
    rates_pkey: PRIMARY KEY (kind)
table ready with (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0)
    queue integer not null
    priority smallint not null
    run_at timestamp with time zone not null
    id bigint not null
    kind integer not null
    attempt smallint not null default 0
    suspicion smallint not null default 0
    unique_key text
    lane bigint
    slot smallint
    ready_attempt_check: CHECK ((attempt >= 0))
    ready_blocked_has_lane: CHECK (((queue >= 0) OR (lane IS NOT NULL)))
    ready_pkey: PRIMARY KEY (queue, priority, run_at, id)
    ready_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
    ready_suspicion_check: CHECK ((suspicion >= 0))
table reservations
    id bigint not null identity
    budget integer not null
    month text not null
    job_id bigint not null
    token bigint not null
    kind text not null
    user_id text
    amount bigint not null
    tokens bigint not null
    at timestamp with time zone not null
    reservations_amount_check: CHECK ((amount >= 0))
    reservations_pkey: PRIMARY KEY (id)
    reservations_tokens_check: CHECK ((tokens >= 0))
sequence reservations_id_seq
table resources
    name text not null
    configured text not null default '{}'::text
    live text not null default '{}'::text
    permits bigint not null default 1
    resources_permits_check: CHECK ((permits > 0))
    resources_pkey: PRIMARY KEY (name)
table rollups
    minute timestamp with time zone not null
    queue integer not null
    kind integer not null
    completed bigint not null
    retried bigint not null
    dead bigint not null
    run_us bigint not null
    latency bigint[] not null
table schedules with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0)
    name text not null
    spec json not null
    payload bytea not null
    revision bigint not null default 1
    paused boolean not null default false
    last_tick timestamp with time zone not null
    next_at timestamp with time zone
    missed bigint not null default 0
    created_at timestamp with time zone not null
    updated_at timestamp with time zone not null
    schedules_missed_check: CHECK ((missed >= 0))
    schedules_pkey: PRIMARY KEY (name)
sequence token_seq
table types
    id integer not null identity
    name text not null
    spec json not null
    updated_at timestamp with time zone not null
    types_name_key: UNIQUE (name)
    types_pkey: PRIMARY KEY (id)
sequence types_id_seq
table unique_keys
    key text not null
    job_id bigint not null
    unique_keys_pkey: PRIMARY KEY (key)
table unique_windows
    key text not null
    job_id bigint not null
    until timestamp with time zone not null
    unique_windows_pkey: PRIMARY KEY (key)
table usage_ledger
    seq bigint not null identity
    at timestamp with time zone not null
    budget integer not null
    month text not null
    how text not null
    reservation bigint
    token bigint
    job_id bigint
    kind text
    user_id text
    provider text
    model text
    tokens_in bigint not null
    tokens_out bigint not null
    amount bigint not null
    usage_ledger_call_whole: CHECK ((num_nulls(reservation, token, job_id, kind) = ANY (ARRAY[0, 4])))
    usage_ledger_how_check: CHECK ((how = ANY (ARRAY['settled'::text, 'leaked'::text, 'reset'::text])))
    usage_ledger_pkey: PRIMARY KEY (seq)
    usage_ledger_reservation_key: UNIQUE (reservation)
    usage_ledger_reset_has_no_call: CHECK (((how = 'reset'::text) = (reservation IS NULL)))
sequence usage_ledger_seq_seq
table vectors
    entity bigint not null
    space text not null
    hash bytea not null
    vector bytea not null storage e
    vectors_pkey: PRIMARY KEY (entity, space)
sequence worker_seq
table workers with (fillfactor=50)
    id bigint not null
    label text not null
    queues integer[] not null
    lease_us bigint not null
    started_at timestamp with time zone not null
    heartbeat_at timestamp with time zone not null
    beats bigint not null default 0
    expires_at timestamp with time zone not null
    stopping boolean not null default false
    limits text not null default '{}'::text
    lock_key bigint
    workers_pkey: PRIMARY KEY (id)
table workflow_jobs
    workflow bigint not null
    no integer not null
    job_id bigint not null
    name text not null
    state smallint not null default 0
    goes_on boolean not null
    parents integer[] not null
    undoes integer
    run_at timestamp with time zone
    delay_us bigint
    undo text
    undo_payload bytea
    children integer[] not null
    workflow_jobs_pkey: PRIMARY KEY (workflow, no)
    workflow_jobs_state_check: CHECK ((state = ANY (ARRAY[0, 1, 3, 4, 5, 6, 7])))
    workflow_jobs_undo_whole: CHECK (((undo IS NULL) = (undo_payload IS NULL)))
table workflows
    id bigint not null
    name text
    on_failure smallint not null
    state smallint not null default 0
    created_at timestamp with time zone not null
    ended_at timestamp with time zone
    workflows_end_known: CHECK (((ended_at IS NULL) = (state = ANY (ARRAY[0, 4]))))
    workflows_on_failure_check: CHECK ((on_failure = ANY (ARRAY[0, 1, 2])))
    workflows_pkey: PRIMARY KEY (id)
    workflows_state_check: CHECK (((state >= 0) AND (state <= 5)))
CREATE UNIQUE INDEX attempts_pkey ON windlass.attempts USING btree (id, token)
CREATE INDEX audit_act ON windlass.audit USING btree (act COLLATE "C", seq)
CREATE INDEX audit_actor ON windlass.audit USING btree (actor, seq)
CREATE INDEX audit_at ON windlass.audit USING btree (at)
CREATE UNIQUE INDEX audit_pkey ON windlass.audit USING btree (seq)
CREATE INDEX audit_subject ON windlass.audit USING btree (subject, seq)
CREATE UNIQUE INDEX backups_pkey ON windlass.backups USING btree (digest)
CREATE UNIQUE INDEX budget_alerts_pkey ON windlass.budget_alerts USING btree (budget, month, percent)
CREATE UNIQUE INDEX budget_costs_pkey ON windlass.budget_costs USING btree (budget, month, dimension, key)
CREATE UNIQUE INDEX budget_months_pkey ON windlass.budget_months USING btree (budget, month)
CREATE UNIQUE INDEX budgets_name_key ON windlass.budgets USING btree (name)
CREATE UNIQUE INDEX budgets_pkey ON windlass.budgets USING btree (id)
CREATE UNIQUE INDEX cancels_pkey ON windlass.cancels USING btree (job_id)
CREATE UNIQUE INDEX claims_pkey ON windlass.claims USING btree (token)
CREATE INDEX claims_queue ON windlass.claims USING btree (queue)
CREATE INDEX entities_changed ON windlass.entities USING btree (changed, no)
CREATE UNIQUE INDEX entities_id ON windlass.entities USING btree (type, id)
CREATE INDEX entities_pending ON windlass.entities USING btree (no) WHERE (state = 1)
CREATE UNIQUE INDEX entities_pkey ON windlass.entities USING btree (no)
CREATE INDEX finished_dead ON ONLY windlass.finished USING btree (id) WHERE (state = ANY (ARRAY[4, 5]))
CREATE INDEX finished_default_id_idx ON windlass.finished_default USING btree (id) WHERE (state = ANY (ARRAY[4, 5]))
CREATE UNIQUE INDEX finished_default_pkey ON windlass.finished_default USING btree (id)
CREATE UNIQUE INDEX finished_pkey ON ONLY windlass.finished USING btree (id)
CREATE UNIQUE INDEX idempotency_pkey ON windlass.idempotency USING btree (key)
CREATE INDEX jobs_default_entity_type_entity_id_id_idx ON windlass.jobs_default USING btree (entity_type, entity_id, id) WHERE (entity_type IS NOT NULL)
CREATE UNIQUE INDEX jobs_default_pkey ON windlass.jobs_default USING btree (id)
CREATE INDEX jobs_entity ON ONLY windlass.jobs USING btree (entity_type, entity_id, id) WHERE (entity_type IS NOT NULL)
CREATE UNIQUE INDEX jobs_pkey ON ONLY windlass.jobs USING btree (id)
CREATE UNIQUE INDEX kinds_name_key ON windlass.kinds USING btree (name)
CREATE UNIQUE INDEX kinds_pkey ON windlass.kinds USING btree (id)
CREATE INDEX lane_checks_at ON windlass.lane_checks USING btree (kind, at)
CREATE UNIQUE INDEX lane_slots_pkey ON windlass.lane_slots USING btree (lane, slot)
CREATE UNIQUE INDEX logs_pkey ON windlass.logs USING btree (job_id, seq)
CREATE UNIQUE INDEX migrations_pkey ON windlass.migrations USING btree (version)
CREATE UNIQUE INDEX pack_migrations_pkey ON windlass.pack_migrations USING btree (pack, version)
CREATE UNIQUE INDEX progress_pkey ON windlass.progress USING btree (job_id)
CREATE UNIQUE INDEX queues_name_key ON windlass.queues USING btree (name)
CREATE UNIQUE INDEX queues_pkey ON windlass.queues USING btree (id)
CREATE UNIQUE INDEX rates_pkey ON windlass.rates USING btree (kind)
CREATE INDEX ready_blocked ON windlass.ready USING btree (lane, priority, run_at, id) WHERE ((- queue) > 0)
CREATE UNIQUE INDEX ready_id ON windlass.ready USING btree (id)
CREATE UNIQUE INDEX ready_pkey ON windlass.ready USING btree (queue, priority, run_at, id)
CREATE INDEX ready_suspects ON windlass.ready USING btree (queue, suspicion, priority, run_at, id) WHERE (suspicion > 0)
CREATE UNIQUE INDEX ready_unique ON windlass.ready USING btree (unique_key) WHERE (unique_key IS NOT NULL)
CREATE UNIQUE INDEX reservations_pkey ON windlass.reservations USING btree (id)
CREATE UNIQUE INDEX resources_pkey ON windlass.resources USING btree (name)
CREATE INDEX rollups_minute ON windlass.rollups USING btree (minute)
CREATE INDEX schedules_next ON windlass.schedules USING btree (next_at) WHERE ((NOT paused) AND (next_at IS NOT NULL))
CREATE UNIQUE INDEX schedules_pkey ON windlass.schedules USING btree (name)
CREATE UNIQUE INDEX types_name_key ON windlass.types USING btree (name)
CREATE UNIQUE INDEX types_pkey ON windlass.types USING btree (id)
CREATE INDEX unique_keys_job ON windlass.unique_keys USING btree (job_id)
CREATE UNIQUE INDEX unique_keys_pkey ON windlass.unique_keys USING btree (key)
CREATE INDEX unique_windows_job ON windlass.unique_windows USING btree (job_id)
CREATE UNIQUE INDEX unique_windows_pkey ON windlass.unique_windows USING btree (key)
CREATE INDEX unique_windows_until ON windlass.unique_windows USING btree (until)
CREATE INDEX usage_ledger_month ON windlass.usage_ledger USING btree (budget, month, seq)
CREATE UNIQUE INDEX usage_ledger_pkey ON windlass.usage_ledger USING btree (seq)
CREATE UNIQUE INDEX usage_ledger_reservation_key ON windlass.usage_ledger USING btree (reservation)
CREATE UNIQUE INDEX vectors_pkey ON windlass.vectors USING btree (entity, space)
CREATE UNIQUE INDEX workers_pkey ON windlass.workers USING btree (id)
CREATE UNIQUE INDEX workflow_jobs_job ON windlass.workflow_jobs USING btree (job_id)
CREATE INDEX workflow_jobs_open ON windlass.workflow_jobs USING btree (workflow, no) WHERE (state = ANY (ARRAY[0, 1]))
CREATE UNIQUE INDEX workflow_jobs_pkey ON windlass.workflow_jobs USING btree (workflow, no)
CREATE INDEX workflows_open ON windlass.workflows USING btree (id) WHERE (ended_at IS NULL)
CREATE UNIQUE INDEX workflows_pkey ON windlass.workflows USING btree (id)
view ai_usage_tracking
 SELECT to_date(c.month, 'YYYY-MM'::text) AS month,
    c.key AS provider,
    c.requests AS total_requests,
    c.tokens_in AS total_tokens_input,
    c.tokens_out AS total_tokens_output,
    (round(((c.amount)::numeric / '10000'::numeric)))::bigint AS estimated_cost_cents,
    (round(((m.limit_amount)::numeric / '10000'::numeric)))::bigint AS budget_limit_cents,
    c.updated_at
   FROM ((windlass.budget_costs c
     JOIN windlass.budgets b ON (((b.id = c.budget) AND (b.name = 'ai'::text))))
     JOIN windlass.budget_months m ON (((m.budget = c.budget) AND (m.month = c.month))))
  WHERE (c.dimension = 'provider'::text);
view attempt_history
 SELECT attempts.id,
    attempts.token,
    attempts.attempt,
    attempts.worker,
    attempts.started_at,
    attempts.ended_at,
    attempts.outcome,
    attempts.error
   FROM windlass.attempts
UNION ALL
 SELECT finished.id,
    finished.token,
    finished.attempt,
    finished.worker,
    finished.started_at,
    finished.finished_at AS ended_at,
        CASE finished.state
            WHEN 3 THEN 'completed'::text
            WHEN 4 THEN 'failed'::text
            WHEN 5 THEN 'dead_letter'::text
            WHEN 6 THEN 'cancelled'::text
            ELSE 'superseded'::text
        END AS outcome,
    finished.error
   FROM windlass.finished
  WHERE (finished.token IS NOT NULL)
UNION ALL
 SELECT i.id,
    c.token,
    c.attempt,
    c.worker,
    c.claimed_at AS started_at,
    NULL::timestamp with time zone AS ended_at,
    'running'::text AS outcome,
    NULL::text AS error
   FROM windlass.claims c,
    LATERAL unnest(c.ids) i(id);
view delayed_jobs
 SELECT j.id,
    q.name AS queue,
    k.name AS job_type,
    j.priority,
    (convert_from(j.payload, 'UTF8'::name))::jsonb AS payload,
    j.run_at AS scheduled_at,
    j.locked_at,
    j.locked_by,
    ((j.used + j.state) - 1) AS attempts,
    j.max_attempts,
    j.error AS last_error,
    j.created_at
   FROM ((windlass.open_jobs j
     JOIN windlass.kinds k ON ((k.id = j.kind)))
     JOIN windlass.queues q ON ((q.id = j.queue)));
view delayed_jobs_dlq
 SELECT j.id,
    q.name AS queue,
    k.name AS job_type,
    j.priority,
    (convert_from(j.payload, 'UTF8'::name))::jsonb AS payload,
    j.run_at AS scheduled_at,
    j.locked_at,
    j.locked_by,
    j.used AS attempts,
    j.max_attempts,
    j.error AS last_error,
    j.created_at,
    j.finished_at AS failed_at
   FROM ((windlass.ended_jobs j
     JOIN windlass.kinds k ON ((k.id = j.kind)))
     JOIN windlass.queues q ON ((q.id = j.queue)))
  WHERE (j.state = ANY (ARRAY[4, 5]));
view embedding_queue
 SELECT (j.id)::text AS id,
    (((convert_from(j.payload, 'UTF8'::name))::jsonb -> 'fields'::text) || jsonb_build_object('id', j.entity_id, 'entityType', j.entity_type)) AS entitydata,
        CASE j.state
            WHEN 1 THEN 'pending'::text
            WHEN 2 THEN 'processing'::text
            WHEN 3 THEN 'completed'::text
            ELSE 'failed'::text
        END AS status,
    (10 - j.priority) AS priority,
    j.used AS retrycount,
    (j.max_attempts - 1) AS maxretries,
    j.error AS lasterror,
    ((EXTRACT(epoch FROM j.created_at) * (1000)::numeric))::bigint AS createdat,
    ((EXTRACT(epoch FROM j.run_at) * (1000)::numeric))::bigint AS scheduledfor,
    ((EXTRACT(epoch FROM j.started_at) * (1000)::numeric))::bigint AS startedat,
    ((EXTRACT(epoch FROM
        CASE
            WHEN (j.state = 3) THEN j.finished_at
            ELSE NULL::timestamp with time zone
        END) * (1000)::numeric))::bigint AS completedat
   FROM (( SELECT open_jobs.id,
            open_jobs.kind,
            open_jobs.queue,
            open_jobs.payload,
            open_jobs.entity_type,
            open_jobs.entity_id,
            open_jobs.created_at,
            open_jobs.max_attempts,
            open_jobs.priority,
            open_jobs.state,
            open_jobs.used,
            open_jobs.run_at,
            open_jobs.started_at,
            open_jobs.finished_at,
            open_jobs.error,
            open_jobs.error_at,
            open_jobs.locked_at,
            open_jobs.locked_by,
            open_jobs.lock_expires_at,
            open_jobs.updated_at
           FROM windlass.open_jobs
        UNION ALL
         SELECT ended_jobs.id,
            ended_jobs.kind,
            ended_jobs.queue,
            ended_jobs.payload,
            ended_jobs.entity_type,
            ended_jobs.entity_id,
            ended_jobs.created_at,
            ended_jobs.max_attempts,
            ended_jobs.priority,
            ended_jobs.state,
            ended_jobs.used,
            ended_jobs.run_at,
            ended_jobs.started_at,
            ended_jobs.finished_at,
            ended_jobs.error,
            ended_jobs.error_at,
            ended_jobs.locked_at,
            ended_jobs.locked_by,
            ended_jobs.lock_expires_at,
            ended_jobs.updated_at
           FROM windlass.ended_jobs) j
     JOIN windlass.kinds k ON (((k.id = j.kind) AND (k.name = ANY (ARRAY['INDEX_ASYNC'::text, 'INDEX_BATCH'::text])))))
  WHERE (j.state < 6);
view ended_jobs
 SELECT j.id,
    j.kind,
    j.queue,
    j.payload,
    j.entity_type,
    j.entity_id,
    j.created_at,
    j.max_attempts,
    j.priority,
    (f.state)::integer AS state,
    (f.attempt -
        CASE f.state
            WHEN 3 THEN 1
            ELSE 0
        END) AS used,
    COALESCE(f.started_at, j.created_at) AS run_at,
    f.started_at,
    f.finished_at,
    f.error,
        CASE
            WHEN (f.error IS NOT NULL) THEN f.finished_at
            ELSE NULL::timestamp with time zone
        END AS error_at,
    NULL::timestamp with time zone AS locked_at,
    NULL::text AS locked_by,
    NULL::timestamp with time zone AS lock_expires_at,
    f.finished_at AS updated_at
   FROM (windlass.finished f
     JOIN windlass.jobs j ON ((j.id = f.id)));
view indexing_queue
 SELECT (j.id)::text AS id,
        CASE ((convert_from(j.payload, 'UTF8'::name))::json ->> 'version'::text)
            WHEN '1'::text THEN 'CREATE'::text
            ELSE 'UPDATE'::text
        END AS operation,
    j.entity_type,
    j.entity_id,
    NULL::text AS vector_id,
    (((convert_from(j.payload, 'UTF8'::name))::json -> 'fields'::text))::text AS content,
    jsonb_build_object('version', (((convert_from(j.payload, 'UTF8'::name))::json ->> 'version'::text))::bigint) AS metadata,
        CASE k.name
            WHEN 'INDEX_BATCH'::text THEN 'BATCH'::text
            ELSE 'ASYNC'::text
        END AS priority,
        CASE j.state
            WHEN 1 THEN 'PENDING'::text
            WHEN 2 THEN 'PROCESSING'::text
            WHEN 3 THEN 'COMPLETED'::text
            WHEN 4 THEN 'FAILED'::text
            ELSE 'DEAD_LETTER'::text
        END AS status,
    j.created_at AS requested_at,
    j.run_at AS scheduled_for,
    j.started_at,
    j.finished_at AS processed_at,
    j.updated_at,
    j.used AS retry_count,
    j.max_attempts AS max_retries,
    j.error AS error_message,
    j.error_at AS last_error_at,
    j.locked_by AS processing_node,
    j.locked_at AS lock_acquired_at,
    j.lock_expires_at
   FROM (( SELECT open_jobs.id,
            open_jobs.kind,
            open_jobs.queue,
            open_jobs.payload,
            open_jobs.entity_type,
            open_jobs.entity_id,
            open_jobs.created_at,
            open_jobs.max_attempts,
            open_jobs.priority,
            open_jobs.state,
            open_jobs.used,
            open_jobs.run_at,
            open_jobs.started_at,
            open_jobs.finished_at,
            open_jobs.error,
            open_jobs.error_at,
            open_jobs.locked_at,
            open_jobs.locked_by,
            open_jobs.lock_expires_at,
            open_jobs.updated_at
           FROM windlass.open_jobs
        UNION ALL
         SELECT ended_jobs.id,
            ended_jobs.kind,
            ended_jobs.queue,
            ended_jobs.payload,
            ended_jobs.entity_type,
            ended_jobs.entity_id,
            ended_jobs.created_at,
            ended_jobs.max_attempts,
            ended_jobs.priority,
            ended_jobs.state,
            ended_jobs.used,
            ended_jobs.run_at,
            ended_jobs.started_at,
            ended_jobs.finished_at,
            ended_jobs.error,
            ended_jobs.error_at,
            ended_jobs.locked_at,
            ended_jobs.locked_by,
            ended_jobs.lock_expires_at,
            ended_jobs.updated_at
           FROM windlass.ended_jobs) j
     JOIN windlass.kinds k ON (((k.id = j.kind) AND (k.name = ANY (ARRAY['INDEX_ASYNC'::text, 'INDEX_BATCH'::text])))))
  WHERE (j.state < 6);
view job_view
 SELECT j.id,
    k.name AS kind,
    q.name AS queue,
        CASE
            WHEN (r.id IS NOT NULL) THEN
            CASE
                WHEN (r.run_at > statement_timestamp()) THEN 'scheduled'::text
                ELSE 'pending'::text
            END
            WHEN (c.id IS NOT NULL) THEN 'running'::text
            ELSE
            CASE f.state
                WHEN 3 THEN 'completed'::text
                WHEN 4 THEN 'failed'::text
                WHEN 5 THEN 'dead_letter'::text
                WHEN 6 THEN 'cancelled'::text
                WHEN 7 THEN 'superseded'::text
                ELSE NULL::text
            END
        END AS state,
    COALESCE(r.priority, j.priority) AS priority,
    COALESCE(r.attempt, c.attempt, f.attempt) AS attempt,
    j.max_attempts,
    r.run_at,
    j.created_at,
    COALESCE(c.claimed_at, f.started_at) AS started_at,
    f.finished_at,
    COALESCE(c.worker, f.worker) AS worker,
    f.error,
    r.suspicion,
    j.unique_key,
    j.concurrency_key,
    j.tags,
    j.entity_type,
    j.entity_id,
    j.parent_id
   FROM (((((windlass.jobs j
     JOIN windlass.kinds k ON ((k.id = j.kind)))
     JOIN windlass.queues q ON ((q.id = j.queue)))
     LEFT JOIN windlass.ready r ON ((r.id = j.id)))
     LEFT JOIN windlass.finished f ON ((f.id = j.id)))
     LEFT JOIN ( SELECT i.id,
            c_1.attempt,
            c_1.claimed_at,
            c_1.worker
           FROM windlass.claims c_1,
            LATERAL unnest(c_1.ids) i(id)) c ON ((c.id = j.id)));
view open_jobs
 SELECT j.id,
    j.kind,
    j.queue,
    j.payload,
    j.entity_type,
    j.entity_id,
    j.created_at,
    j.max_attempts,
    r.priority,
    1 AS state,
    (r.attempt)::integer AS used,
    r.run_at,
    NULL::timestamp with time zone AS started_at,
    NULL::timestamp with time zone AS finished_at,
    a.error,
    a.ended_at AS error_at,
    NULL::timestamp with time zone AS locked_at,
    NULL::text AS locked_by,
    NULL::timestamp with time zone AS lock_expires_at,
    COALESCE(a.ended_at, j.created_at) AS updated_at
   FROM ((windlass.ready r
     JOIN windlass.jobs j ON ((j.id = r.id)))
     LEFT JOIN LATERAL ( SELECT a_1.error,
            a_1.ended_at
           FROM windlass.attempts a_1
          WHERE ((a_1.id = j.id) AND (a_1.error IS NOT NULL))
          ORDER BY a_1.token DESC
         LIMIT 1) a ON (true))
UNION ALL
 SELECT j.id,
    j.kind,
    j.queue,
    j.payload,
    j.entity_type,
    j.entity_id,
    j.created_at,
    j.max_attempts,
    j.priority,
    2 AS state,
    (c.attempt - 1) AS used,
    c.run_at,
    c.claimed_at AS started_at,
    NULL::timestamp with time zone AS finished_at,
    a.error,
    a.ended_at AS error_at,
    c.claimed_at AS locked_at,
    w.label AS locked_by,
    w.expires_at AS lock_expires_at,
    COALESCE(w.heartbeat_at, c.claimed_at) AS updated_at
   FROM (((( SELECT i.id,
            i.run_at,
            c_1.attempt,
            c_1.claimed_at,
            c_1.worker
           FROM (windlass.claims c_1
             CROSS JOIN LATERAL UNNEST(c_1.ids, c_1.run_ats) i(id, run_at))) c
     JOIN windlass.jobs j ON ((j.id = c.id)))
     LEFT JOIN windlass.workers w ON ((w.id = c.worker)))
     LEFT JOIN LATERAL ( SELECT a_1.error,
            a_1.ended_at
           FROM windlass.attempts a_1
          WHERE ((a_1.id = j.id) AND (a_1.error IS NOT NULL))
          ORDER BY a_1.token DESC
         LIMIT 1) a ON (true));
