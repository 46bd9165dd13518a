-- The documents' tables ------------------------------------------------------------------------------------------
-- For reading only: what the documents change by hand are verbs. docs/views.md says what each column is.

-- Jobs that wait (state 1) or run (2) with what the views below ask about. used: runs that counted and did not succeed.
create view windlass_open_jobs as
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

-- The same of jobs that ended.
create view windlass_ended_jobs as
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, j.priority,
       f.state as state, f.attempt - case f.state when 3 then 1 else 0 end as used,
       coalesce(f.started_at, j.created_at) as run_at, f.started_at, f.finished_at, f.error,
       case when f.error is not null then f.finished_at end as error_at, null as locked_at, null as locked_by,
       null as lock_expires_at, f.finished_at as updated_at
from windlass_finished f
join windlass_jobs j on j.id = f.id;

-- Document 000: boxes. What a newer box replaced or an operator cancelled is not in it.
create view windlass_indexing_queue as
select cast(j.id as text) as id, case cast(j.payload as text) ->> '$.version' when 1 then 'CREATE' else 'UPDATE' end as operation,
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

-- Document 001: the same boxes in its words. Its times are milliseconds, its larger priority is the more urgent one.
create view windlass_embedding_queue as
select cast(j.id as text) as id,
       json_set(cast(j.payload as text) -> '$.fields', '$.id', j.entity_id, '$.entityType', j.entity_type) as entityData,
       case j.state when 1 then 'pending' when 2 then 'processing' when 3 then 'completed' else 'failed' end as status,
       10 - j.priority as priority, j.used as retryCount, j.max_attempts - 1 as maxRetries, j.error as lastError,
       j.created_at / 1000 as createdAt,
       j.run_at / 1000 as scheduledFor,
       j.started_at / 1000 as startedAt,
       case when j.state = 3 then j.finished_at end / 1000 as completedAt
from (select * from windlass_open_jobs union all select * from windlass_ended_jobs) j
join windlass_kinds k on k.id = j.kind and k.name in ('INDEX_ASYNC', 'INDEX_BATCH')
where j.state < 6;

-- Document 002: jobs that wait or run.
create view windlass_delayed_jobs as
select j.id, q.name as queue, k.name as job_type, j.priority, cast(j.payload as text) as payload,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.run_at / 1e6, 'unixepoch') as scheduled_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.locked_at / 1e6, 'unixepoch') as locked_at, j.locked_by,
       j.used + j.state - 1 as attempts, j.max_attempts, j.error as last_error,
       strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1e6, 'unixepoch') as created_at
from windlass_open_jobs j
join windlass_kinds k on k.id = j.kind
join windlass_queues q on q.id = j.queue;

-- Jobs that will not run again by themselves.
create view windlass_delayed_jobs_dlq as
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
