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

-- For people -----------------------------------------------------------------------------------------------------

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
       coalesce(c.worker, f.worker) as worker, f.error, r.suspect,
       j.unique_key, j.concurrency_key, j.tags, j.entity_type, j.entity_id, j.tenant, j.parent_id
from windlass.jobs j
join windlass.kinds k on k.id = j.kind
join windlass.queues q on q.id = j.queue
left join windlass.ready r on r.id = j.id
left join windlass.finished f on f.id = j.id
left join (select i.id, c.attempt, c.claimed_at, c.worker from windlass.claims c, unnest(c.ids) i (id)) c
       on c.id = j.id;
