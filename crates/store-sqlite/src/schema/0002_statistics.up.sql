-- Statistics -----------------------------------------------------------------------------------------------------

create table windlass_rollups (
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

create index windlass_rollups_minute on windlass_rollups (minute);

-- For people -----------------------------------------------------------------------------------------------------

create view windlass_job_view as
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
