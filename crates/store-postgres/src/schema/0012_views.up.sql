-- The documents' tables ------------------------------------------------------------------------------------------
-- For reading only: what the documents change by hand are verbs. docs/views.md says what each column is.

-- Jobs that wait (state 1) or run (2) with what the views below ask about. used: runs that counted and did not succeed.
create view windlass.open_jobs as
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, r.priority,
       1 as state, r.attempt::integer as used, r.run_at, null::timestamptz as started_at, null::timestamptz as finished_at,
       a.error, a.ended_at as error_at, null::timestamptz as locked_at, null::text as locked_by,
       null::timestamptz as lock_expires_at, coalesce(a.ended_at, j.created_at) as updated_at
from windlass.ready r
join windlass.jobs j on j.id = r.id
left join lateral (select a.error, a.ended_at from windlass.attempts a
                   where a.id = j.id and a.error is not null order by a.token desc limit 1) a on true
union all
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, j.priority,
       2, c.attempt - 1, c.run_at, c.claimed_at, null::timestamptz, a.error, a.ended_at, c.claimed_at, w.label, w.expires_at,
       coalesce(w.heartbeat_at, c.claimed_at)
from (select i.id, i.run_at, c.attempt, c.claimed_at, c.worker
      from windlass.claims c cross join unnest(c.ids, c.run_ats) i (id, run_at)) c
join windlass.jobs j on j.id = c.id
left join windlass.workers w on w.id = c.worker
left join lateral (select a.error, a.ended_at from windlass.attempts a
                   where a.id = j.id and a.error is not null order by a.token desc limit 1) a on true;

-- The same of jobs that ended.
create view windlass.ended_jobs as
select j.id, j.kind, j.queue, j.payload, j.entity_type, j.entity_id, j.created_at, j.max_attempts, j.priority,
       f.state::integer as state, f.attempt - case f.state when 3 then 1 else 0 end as used,
       coalesce(f.started_at, j.created_at) as run_at, f.started_at, f.finished_at, f.error,
       case when f.error is not null then f.finished_at end as error_at, null::timestamptz as locked_at, null::text as locked_by,
       null::timestamptz as lock_expires_at, f.finished_at as updated_at
from windlass.finished f
join windlass.jobs j on j.id = f.id;

-- Document 000: boxes. What a newer box replaced or an operator cancelled is not in it.
create view windlass.indexing_queue as
select j.id::text as id, case convert_from(j.payload, 'UTF8')::json ->> 'version' when '1' then 'CREATE' else 'UPDATE' end as operation,
       j.entity_type, j.entity_id, null::text as vector_id, (convert_from(j.payload, 'UTF8')::json -> 'fields')::text as content,
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

-- Document 001: the same boxes in its words. Its times are milliseconds, its larger priority is the more urgent one.
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

-- Document 002: jobs that wait or run.
create view windlass.delayed_jobs as
select j.id, q.name as queue, k.name as job_type, j.priority, convert_from(j.payload, 'UTF8')::jsonb as payload,
       j.run_at as scheduled_at,
       j.locked_at as locked_at, j.locked_by,
       j.used + j.state - 1 as attempts, j.max_attempts, j.error as last_error,
       j.created_at as created_at
from windlass.open_jobs j
join windlass.kinds k on k.id = j.kind
join windlass.queues q on q.id = j.queue;

-- Jobs that will not run again by themselves.
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
