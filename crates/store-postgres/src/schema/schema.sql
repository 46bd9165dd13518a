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
table cancels
    job_id bigint not null
    requested_at timestamp with time zone not null
    cancels_pkey: PRIMARY KEY (job_id)
table claims with (toast_tuple_target=8160, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0)
    token bigint not null
    worker bigint not null
    queue integer not null
    attempt smallint not null
    crashes smallint not null default 0
    alone boolean not null
    claimed_at timestamp with time zone not null
    ids bigint[] not null storage e
    run_ats timestamp with time zone[] not null storage e
    claims_alone_is_one: CHECK (((NOT alone) OR (cardinality(ids) = 1)))
    claims_attempt_check: CHECK ((attempt > 0))
    claims_ids_check: CHECK ((cardinality(ids) > 0))
    claims_pkey: PRIMARY KEY (token)
    claims_places_match: CHECK ((cardinality(run_ats) = cardinality(ids)))
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
    finished_state_check: CHECK ((state = ANY (ARRAY[3, 4, 5, 6, 7])))
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
    finished_state_check: CHECK ((state = ANY (ARRAY[3, 4, 5, 6, 7])))
table idempotency
    key text not null
    job_id bigint not null
    fingerprint bytea not null
    created_at timestamp with time zone not null
    idempotency_pkey: PRIMARY KEY (key)
sequence job_seq
partitioned table jobs
    id bigint not null
    kind integer not null
    queue integer not null
    priority smallint not null
    max_attempts smallint not null
    payload_key_id integer
    waiting_on integer not null default 0
    created_at timestamp with time zone not null
    timeout_us bigint
    parent_id bigint
    payload bytea not null
    unique_key text
    concurrency_key text
    tags text[]
    entity_type text
    entity_id text
    tenant text
    jobs_entity_whole: CHECK (((entity_type IS NULL) = (entity_id IS NULL)))
    jobs_max_attempts_check: CHECK ((max_attempts > 0))
    jobs_pkey: PRIMARY KEY (id)
    jobs_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
table jobs_default
    id bigint not null
    kind integer not null
    queue integer not null
    priority smallint not null
    max_attempts smallint not null
    payload_key_id integer
    waiting_on integer not null default 0
    created_at timestamp with time zone not null
    timeout_us bigint
    parent_id bigint
    payload bytea not null
    unique_key text
    concurrency_key text
    tags text[]
    entity_type text
    entity_id text
    tenant text
    jobs_default_pkey: PRIMARY KEY (id)
    jobs_entity_whole: CHECK (((entity_type IS NULL) = (entity_id IS NULL)))
    jobs_max_attempts_check: CHECK ((max_attempts > 0))
    jobs_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
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
    kinds_max_attempts_check: CHECK ((max_attempts > 0))
    kinds_name_key: UNIQUE (name)
    kinds_pkey: PRIMARY KEY (id)
    kinds_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
    kinds_queue_fkey: FOREIGN KEY (queue) REFERENCES windlass.queues(id)
sequence kinds_id_seq
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
    concurrency integer not null
    cadence_us bigint not null
    sla_us bigint
    owner text not null
    colour text not null
    depth_cap bigint
    paused boolean not null default false
    live_concurrency integer
    live_depth_cap bigint
    live_depth_cap_set boolean not null default false
    queues_concurrency_check: CHECK ((concurrency >= 0))
    queues_live_concurrency_check: CHECK ((live_concurrency >= 0))
    queues_name_key: UNIQUE (name)
    queues_pkey: PRIMARY KEY (id)
    queues_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
sequence queues_id_seq
table ready with (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0)
    queue integer not null
    priority smallint not null
    run_at timestamp with time zone not null
    id bigint not null
    kind integer not null
    attempt smallint not null default 0
    suspect smallint
    unique_key text
    ready_attempt_check: CHECK ((attempt >= 0))
    ready_pkey: PRIMARY KEY (queue, priority, run_at, id)
    ready_priority_check: CHECK (((priority >= 0) AND (priority <= 10)))
    ready_suspect_check: CHECK ((suspect >= 0))
table rollups
    minute timestamp with time zone not null
    queue integer not null
    kind integer not null
    completed bigint not null
    retried bigint not null
    dead bigint not null
    run_us bigint not null
    latency bigint[] not null
sequence token_seq
table types
    id integer not null identity
    name text not null
    spec json not null
    updated_at timestamp with time zone not null
    types_name_key: UNIQUE (name)
    types_pkey: PRIMARY KEY (id)
sequence types_id_seq
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
    workers_pkey: PRIMARY KEY (id)
CREATE UNIQUE INDEX attempts_pkey ON windlass.attempts USING btree (id, token)
CREATE UNIQUE INDEX cancels_pkey ON windlass.cancels USING btree (job_id)
CREATE UNIQUE INDEX claims_pkey ON windlass.claims USING btree (token)
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
CREATE UNIQUE INDEX logs_pkey ON windlass.logs USING btree (job_id, seq)
CREATE UNIQUE INDEX migrations_pkey ON windlass.migrations USING btree (version)
CREATE UNIQUE INDEX progress_pkey ON windlass.progress USING btree (job_id)
CREATE UNIQUE INDEX queues_name_key ON windlass.queues USING btree (name)
CREATE UNIQUE INDEX queues_pkey ON windlass.queues USING btree (id)
CREATE UNIQUE INDEX ready_id ON windlass.ready USING btree (id)
CREATE UNIQUE INDEX ready_pkey ON windlass.ready USING btree (queue, priority, run_at, id)
CREATE INDEX ready_suspect ON windlass.ready USING btree (queue, priority, run_at, id) WHERE (suspect IS NOT NULL)
CREATE UNIQUE INDEX ready_unique ON windlass.ready USING btree (unique_key) WHERE (unique_key IS NOT NULL)
CREATE INDEX rollups_minute ON windlass.rollups USING btree (minute)
CREATE UNIQUE INDEX types_name_key ON windlass.types USING btree (name)
CREATE UNIQUE INDEX types_pkey ON windlass.types USING btree (id)
CREATE UNIQUE INDEX vectors_pkey ON windlass.vectors USING btree (entity, space)
CREATE UNIQUE INDEX workers_pkey ON windlass.workers USING btree (id)
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
    r.suspect,
    j.unique_key,
    j.concurrency_key,
    j.tags,
    j.entity_type,
    j.entity_id,
    j.tenant,
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
