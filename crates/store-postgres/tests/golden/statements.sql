delete from windlass.logs l
using unnest($1::bigint[]) i (id),
      lateral (select seq from windlass.logs where job_id = i.id order by seq desc offset $2 limit 1) last
where l.job_id = i.id and l.seq <= last.seq
;

    insert into windlass.audit (at, actor, act, subject, detail) values ($1, $2, $3, $4, $5::json)
;

insert into windlass.budget_alerts (budget, month, percent, level, at)
select $1, $2, percent, level, $5 from unnest($3::smallint[], $4::text[]) u (percent, level)
on conflict do nothing
returning percent
;

insert into windlass.budget_costs as c (budget, month, dimension, key, requests, tokens_in, tokens_out, amount,
                                        updated_at)
select $1, $2, dimension, key, 1, $5, $6, $7, $8 from unnest($3::text[], $4::text[]) u (dimension, key)
on conflict (budget, month, dimension, key) do update
set requests = c.requests + 1, tokens_in = c.tokens_in + excluded.tokens_in,
    tokens_out = c.tokens_out + excluded.tokens_out, amount = c.amount + excluded.amount,
    updated_at = excluded.updated_at
;

insert into windlass.budget_months (budget, month, limit_amount, limit_tokens, updated_at)
select id, $2, amount, tokens, $3 from windlass.budgets where id = $1
on conflict do nothing
;

insert into windlass.budgets (name, currency, amount, tokens, thresholds) values ($1, $2, $3, $4, $5::json)
on conflict (name) do update
set currency = excluded.currency, amount = excluded.amount, tokens = excluded.tokens,
    thresholds = excluded.thresholds
returning id
;

insert into windlass.kinds as k (name, queue, priority, max_attempts, timeout_us, backoff_base_us,
                                 backoff_cap_us, description, resource, at_most_once)
select $1, q.id, $3, $4, $5, $6, $7, $8, $9, $10 from windlass.queues q where q.name = $2
on conflict (name) do update
set priority = excluded.priority, max_attempts = excluded.max_attempts, timeout_us = excluded.timeout_us,
    backoff_base_us = excluded.backoff_base_us, backoff_cap_us = excluded.backoff_cap_us,
    description = excluded.description, resource = excluded.resource, at_most_once = excluded.at_most_once
where k.queue = excluded.queue
  and (k.priority, k.max_attempts, k.timeout_us, k.backoff_base_us, k.backoff_cap_us, k.description, k.resource,
       k.at_most_once)
    is distinct from (excluded.priority, excluded.max_attempts, excluded.timeout_us, excluded.backoff_base_us,
                      excluded.backoff_cap_us, excluded.description, excluded.resource, excluded.at_most_once)
returning k.xmax = 0 as new
;

insert into windlass.lane_checks (kind, at, lane, freed)
select distinct r.kind, statement_timestamp() + $1::bigint * interval '1 microsecond', r.lane, true
from windlass.ready r join windlass.kinds k on k.id = r.kind
where -r.queue > 0 and k.name = any ($2)
;

insert into windlass.queues as q (name, priority, cadence_us, sla_us, owner, colour, resource)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (name) do update
set priority = excluded.priority, cadence_us = excluded.cadence_us, sla_us = excluded.sla_us,
    owner = excluded.owner, colour = excluded.colour, resource = excluded.resource
where $8 and (q.priority, q.cadence_us, q.sla_us, q.owner, q.colour, q.resource)
    is distinct from (excluded.priority, excluded.cadence_us, excluded.sla_us, excluded.owner, excluded.colour,
                      excluded.resource)
;

insert into windlass.reservations (budget, month, job_id, token, kind, user_id, amount, tokens, at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning id
;

    insert into windlass.resources (name) values ($1) on conflict (name) do nothing
;

insert into windlass.rollups (minute, queue, kind, completed, retried, dead, run_us, latency)
select minute, queue, kind, completed, retried, dead, run_us, latency::bigint[]
from unnest($1::timestamptz[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::text[]) u (minute, queue, kind, completed, retried, dead, run_us, latency)
;

insert into windlass.types (name, spec, updated_at)
values ($2, $3::text::json, statement_timestamp() + $1::bigint * interval '1 microsecond')
on conflict (name) do update set spec = excluded.spec, updated_at = excluded.updated_at
returning id, xmax = 0 as new
;

insert into windlass.unique_keys (key, job_id)
select u.key, u.job_id from unnest($1::text[], $2::bigint[]) u (key, job_id) order by u.key
on conflict (key) do nothing returning key
;

insert into windlass.usage_ledger (at, budget, month, how, reservation, token, job_id, kind, user_id, provider,
                                   model, tokens_in, tokens_out, amount)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
;

insert into windlass.vectors (entity, space, hash, vector)
select * from unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[])
on conflict (entity, space) do update set hash = excluded.hash, vector = excluded.vector
;

insert into windlass.workers (id, label, queues, lease_us, started_at, heartbeat_at, expires_at, lock_key)
select nextval('windlass.worker_seq'), $2, $3, $4::bigint, now, now, now + $4 * interval '1 microsecond', $5
from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
returning id
;

insert into windlass.workflows (id, name, on_failure, created_at)
values ($2, $3, $4, statement_timestamp() + $1::bigint * interval '1 microsecond')
;

select array_agg((floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22)
                 | (nextval('windlass.job_seq') & 4194303))
from generate_series(1, $1::int)
;

select at, how, reservation, job_id, kind, user_id, provider, model, amount, tokens_in, tokens_out
from windlass.usage_ledger
where budget = (select id from windlass.budgets where name = $1) and month = $2
order by seq desc limit $3
;

select attempt, token, worker, coalesce(started_at, ended_at) as started_at, ended_at, outcome, error
from windlass.attempt_history where id = $1 order by token
;

select c.job_id, null::bigint as over
from unnest($1::bigint[], $2::int[]) u (workflow, no)
join windlass.workflow_jobs c on c.workflow = u.workflow and c.no = u.no
where c.state = 0 and (
    select 1 from windlass.workflow_jobs p
    where p.workflow = c.workflow and p.no = any (c.parents) and p.state in (0, 1) limit 1) is null
union all
select null, w.id from unnest($3::bigint[]) w (id)
where (select 1 from windlass.workflow_jobs where workflow = w.id and state in (0, 1) limit 1) is null
;

select c.worker, coalesce(k.resource, q.resource) as resource, count(*) as in_use
from windlass.queues q
join windlass.claims c on c.queue = q.id
cross join lateral unnest(c.ids) i (id)
join windlass.jobs j on j.id = i.id
join windlass.kinds k on k.id = j.kind
where coalesce(k.resource, q.resource) is not null
  and (q.resource is not null
       or exists (select from windlass.kinds n where n.queue = q.id and n.resource is not null))
group by 1, 2
;

select coalesce((select sum(n_dead_tup) from pg_stat_user_tables
          where relid in (to_regclass('windlass.ready'), to_regclass('windlass.claims'),
                          to_regclass('windlass.lane_slots'), to_regclass('windlass.lane_checks'))), 0)::bigint as dead_rows,
not exists (select from windlass.jobs_default)
    and not exists (select from windlass.finished_default) as default_empty
;

select currency from windlass.budgets b where name = $1 and currency <> $2
and exists (select from windlass.budget_months m
            where m.budget = b.id and (m.settled_amount > 0 or m.reserved_amount > 0))
;

select i.id, i.run_at, i.slot, c.token, c.attempt, c.suspicion, c.alone, c.claimed_at,
       j.queue, j.kind, j.lane, x.job_id is not null as cancel, k.at_most_once
from windlass.claims c cross join unnest(c.ids, c.run_ats, c.slots) i (id, run_at, slot)
join windlass.jobs j on j.id = i.id
join windlass.kinds k on k.id = j.kind
left join windlass.cancels x on x.job_id = i.id
where c.worker = $1 and c.token = any ($2)
;

    select id, name, currency, amount, tokens, thresholds::text from windlass.budgets order by name
;

    select id, name, currency, amount, tokens, thresholds::text from windlass.budgets where name = $1
;

select k.id, k.queue, k.name, q.name as queue_name, k.priority, k.max_attempts, k.timeout_us,
       k.backoff_base_us, k.backoff_cap_us, k.description, k.at_most_once, r.name as resource,
       k.rate, r.permits, k.key_concurrency
from windlass.kinds k join windlass.queues q on q.id = k.queue
left join windlass.resources r on r.name = coalesce(k.resource, q.resource) order by k.name
;

select k.n, e.no, e.hash, e.state, e.job_id,
       (extract(epoch from statement_timestamp() - e.updated_at) * 1000000)::bigint + $3 as age
from unnest($1::int[], $2::text[]) with ordinality k (type, id, n)
cross join lateral (
    select no, hash, state, job_id, updated_at from windlass.entities where type = k.type and id = k.id for update) e
;

select k.n, e.no, e.version, e.fields, e.hash, e.state, e.waiting, e.indexed_version
from unnest($1::int[], $2::text[]) with ordinality k (type, id, n)
cross join lateral (
    select no, version, fields::text as fields, hash, state, waiting, indexed_version
    from windlass.entities where type = k.type and id = k.id for update) e
;

select k.name, coalesce(k.resource, q.resource) as resource
from windlass.kinds k join windlass.queues q on q.id = k.queue where k.id = $1 for no key update of k
;

select k.name, j.tags from windlass.claims c
join windlass.jobs j on j.id = $1 join windlass.kinds k on k.id = j.kind
where c.token = $2 and $1 = any (c.ids)
;

select k.rate, r.given_until,
       statement_timestamp() + $2::bigint * interval '1 microsecond' as now
from windlass.kinds k left join windlass.rates r on r.kind = k.id where k.id = $1
;

select key, requests, tokens_in, tokens_out, amount from windlass.budget_costs
where budget = (select id from windlass.budgets where name = $1) and month = $2 and dimension = $3
  and requests > 0
order by amount desc, key limit $4
;

    select live_amount or live_tokens as live from windlass.budget_months where budget = $1 and month = $2
;

select m.name, m.job_id, m.state, m.parents, m.undoes, m.goes_on, coalesce(k.name, '') as kind, r.id is not null as ready,
       coalesce(r.run_at > statement_timestamp() + $2::bigint * interval '1 microsecond', false) as ahead
from windlass.workflow_jobs m
left join lateral (select kind from windlass.jobs where id = m.job_id limit 1) j on true
left join windlass.kinds k on k.id = j.kind
left join windlass.ready r on r.id = m.job_id
where m.workflow = $1 order by m.no
;

select m.workflow from windlass.workflow_jobs m
cross join lateral (select from windlass.finished where id = m.job_id limit 1) f
where m.state in (0, 1)
union
select m.workflow from windlass.workflow_jobs m
where m.state in (0, 1) and m.state = 0 and not exists (
    select from windlass.workflow_jobs p
    where p.workflow = m.workflow and p.no = any (m.parents) and p.state in (0, 1))
limit 200
;

select month, limit_amount, limit_tokens, settled_amount, settled_tokens, reserved_amount, reserved_tokens
from windlass.budget_months
where budget = $1 and month > $2 and (month <= $3 or live_amount or live_tokens) order by month desc
;

select month, limit_amount, limit_tokens, settled_amount, settled_tokens, reserved_amount, reserved_tokens
from windlass.budget_months where budget = $1 and month = $2
;

select month, limit_amount, limit_tokens, settled_amount, settled_tokens, reserved_amount, reserved_tokens
from windlass.budget_months where budget = $1 and month = $2 for update
;

select p.name, p.job_id, p.state, f.result
from windlass.workflow_jobs m
join windlass.workflow_jobs p
  on p.workflow = m.workflow and p.no = any (case when m.undoes is null then m.parents else array[m.undoes] end)
left join lateral (select result from windlass.finished where id = p.job_id limit 1) f on true
where m.job_id = $1 order by p.no
;

    select percent, level, at from windlass.budget_alerts where budget = $1 and month = $2 order by percent
;

select q.limited_claims as claims, q.global_concurrency as most,
       coalesce((select sum(cardinality(c.ids)) from windlass.claims c where c.queue = q.id), 0)::bigint as leased
from windlass.queues q where q.id = $1
;

    select q.name from windlass.kinds k join windlass.queues q on q.id = k.queue where k.name = $1
;

select r.id, b.name, r.month, r.job_id, r.token, r.kind, r.user_id, r.amount, r.tokens
from windlass.reservations r join windlass.budgets b on b.id = r.budget
where r.id = $1 and r.token = $2
;

select substring(c.relname from 11) as day, b.lo, b.hi
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
cross join lateral (
    select m[1]::bigint as lo, m[2]::bigint as hi
    from regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(-?\d+)''\) TO \(''(-?\d+)''\)') m) b
where i.inhparent = to_regclass('windlass.finished') and b.hi <= $1
  and b.hi <= (floor(extract(epoch from clock_timestamp()) * 1000)::bigint << 22)
order by b.lo
;

select to_char(to_timestamp(d * 86400) at time zone 'UTC', 'YYYYMMDD') as day,
       (d * 86400000) << 22 as lo, ((d + 1) * 86400000) << 22 as hi
from (select floor(extract(epoch from clock_timestamp()) / 86400)::bigint + n as d
      from generate_series(0, $1::int) n) days
where to_regclass('windlass.finished_d' || to_char(to_timestamp(d * 86400) at time zone 'UTC', 'YYYYMMDD'))
      is null
order by d
;

select w.id, w.beats, w.lease_us, w.stopping,
       w.expires_at < statement_timestamp() + $1::bigint * interval '1 microsecond' as expired,
       w.heartbeat_at < pg_postmaster_start_time() + $1::bigint * interval '1 microsecond' as before_restart,
       w.lock_key is not null as has_lock, l.key is not null as locked,
       (extract(epoch from statement_timestamp() - pg_postmaster_start_time()) * 1e6)::bigint as uptime_us
from windlass.workers w
left join (select distinct (classid::bigint << 32) | objid::bigint as key from pg_locks
           where locktype = 'advisory' and objsubid = 1 and granted
             and database = (select oid from pg_database where datname = current_database())) l
    on l.key = w.lock_key
order by w.id
;

select w.id, w.label, w.queues, w.started_at, w.heartbeat_at, w.limits,
       coalesce((select sum(cardinality(c.ids)) from windlass.claims c where c.worker = w.id), 0)::bigint
           as running
from windlass.workers w order by w.id
;

select w.id, w.on_failure, w.state as whole, m.state, m.parents, m.goes_on, m.undo is not null as has_undo, m.undoes,
       m.job_id, m.name
from windlass.workflows w join windlass.workflow_jobs m on m.workflow = w.id
where w.id = any ($1) order by w.id, m.no
;

update windlass.budget_months
set limit_amount = $3, limit_tokens = $4, live_amount = coalesce($5, live_amount),
    live_tokens = coalesce($6, live_tokens)
where budget = $1 and month = $2
;

update windlass.budget_months
set limit_amount = case when live_amount then limit_amount else $3 end,
    limit_tokens = case when live_tokens then limit_tokens else $4 end
where budget = $1 and month >= $2
;

update windlass.budget_months
set settled_amount = $3, settled_tokens = $4, reserved_amount = $5, reserved_tokens = $6, updated_at = $7
where budget = $1 and month = $2
;

update windlass.entities
set state = 2, waiting = null, error = null, indexed_version = version, changed = pg_current_xact_id()
where no = any ($1)
;

update windlass.schedules
set paused = $3, revision = revision + 1,
    updated_at = statement_timestamp() + $1::bigint * interval '1 microsecond'
where name = $2 and paused <> $3
;

update windlass.unique_windows
set job_id = $4, until = statement_timestamp() + $1::bigint * interval '1 microsecond'
where key = $2 and job_id = $3
;

update windlass.workers
set beats = beats + 1, heartbeat_at = now, expires_at = now + lease_us * interval '1 microsecond'
from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
where id = $2
;

update windlass.workflow_jobs m set state = u.state
from unnest($1::bigint[], $2::smallint[]) u (id, state)
where m.job_id = u.id
returning m.workflow, m.state, m.goes_on, m.undoes is not null as undoes, m.children
;

update windlass.workflows w
set state = u.state, ended_at = case when u.state not in (0, 4)
                                     then statement_timestamp() + $1::bigint * interval '1 microsecond' end
from unnest($2::bigint[], $3::smallint[]) u (id, state)
where w.id = u.id
;

with c as materialized (
    select c.ids from windlass.claims c where c.ids && $2::bigint[] order by c.token for share),
l as materialized (select i.id from c cross join unnest(c.ids) i (id) where i.id = any ($2)),
k as (insert into windlass.cancels (job_id, requested_at)
      select id, statement_timestamp() + $1::bigint * interval '1 microsecond' from l
      on conflict do nothing)
select id from l
;

with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
holders as materialized (
    select lane, slot, count(*) as jobs
    from (select lane, slot from windlass.ready where queue > 0 and lane is not null
          union all
          select j.lane, i.slot from windlass.claims c cross join unnest(c.ids, c.slots) i (id, slot)
          join windlass.jobs j on j.id = i.id where j.lane is not null) h
    group by lane, slot),
blocked as materialized (
    select r.id, r.priority from clock cross join windlass.ready r join windlass.kinds k on k.id = r.kind
    where r.queue < 0
      and not exists (select from windlass.lane_checks c
                      where c.kind = r.kind and c.lane = r.lane
                        and c.at <= greatest(r.run_at, clock.now + interval '1 second'))
      and (r.run_at > clock.now
           or (select count(*) from windlass.lane_slots s where s.lane = r.lane) < k.key_concurrency))
select (select count(*) from windlass.lane_slots s
        where not exists (select from holders h where h.lane = s.lane and h.slot = s.slot)) as slots,
       (select coalesce(sum(h.jobs - case when s.slot is null then 0 else 1 end), 0)::bigint
        from holders h left join windlass.lane_slots s on s.lane = h.lane and s.slot = h.slot) as holders,
       (select count(*) from blocked) as blocked,
       (select id || ' --priority ' || priority from blocked order by id limit 1) as one
;

with d as (delete from windlass.finished where id = any ($1) returning id),
j as (delete from windlass.jobs where id in (select id from d)),
a as (delete from windlass.attempts where id in (select id from d)),
l as (delete from windlass.logs where job_id in (select id from d)),
p as (delete from windlass.progress where job_id in (select id from d)),
k as (delete from windlass.cancels where job_id in (select id from d)),
i as (delete from windlass.idempotency where job_id in (select id from d)),
w as (delete from windlass.unique_windows where job_id in (select id from d))
select count(*) from d
;

with d as (delete from windlass.ready where id = $2 returning id, attempt, run_at, kind, lane, slot),
     k as (delete from windlass.cancels where job_id in (select id from d)),
     f as (insert into windlass.finished (id, state, attempt, finished_at)
           select id, 7, attempt, statement_timestamp() + $1::bigint * interval '1 microsecond' from d)
select id, run_at, lane, kind, slot from d
;

with d as (delete from windlass.ready where id = any ($2) and queue = 0 returning id, attempt),
f as (insert into windlass.finished (id, state, attempt, finished_at)
      select id, 6, attempt, statement_timestamp() + $1::bigint * interval '1 microsecond' from d)
update windlass.workflow_jobs set state = 6 where job_id = any ($2)
;

with d as (delete from windlass.ready where id = any ($2) returning id, attempt, kind, lane, slot),
     k as (delete from windlass.cancels where job_id in (select id from d)),
     f as (insert into windlass.finished (id, state, attempt, finished_at)
           select id, 6, attempt, statement_timestamp() + $1::bigint * interval '1 microsecond' from d)
select id, lane, kind, slot from d
;

with k as materialized (
    select b.job, t.id as type, j.entity_id as id
    from unnest($1::bigint[]) b (job)
    cross join lateral (
        select entity_type, entity_id from windlass.jobs where id = b.job and entity_type is not null limit 1) j
    join windlass.types t on t.name = j.entity_type
    order by t.id, j.entity_id collate "C")
select k.job, e.no
from k
cross join lateral (
    select no from windlass.entities where type = k.type and id = k.id and job_id = k.job for update) e
;

with n as materialized (
    select statement_timestamp() + ($1::bigint - $2::bigint) * interval '1 microsecond' as before)
select r.priority, r.run_at
from n cross join unnest($5::timestamptz[]) with ordinality p (low, n)
cross join lateral (
    select r.priority, r.run_at from windlass.ready r
    where r.queue = $3 and r.priority = (p.n - 1)::smallint and r.run_at >= p.low and r.run_at <= n.before
      and r.suspicion <= 1 and r.kind = any ($4::int[])
    order by r.run_at, r.id limit $6) r
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
insert into windlass.unique_windows as w (key, job_id, until)
select u.key, u.job_id, n.now + u.span * interval '1 microsecond'
from n, unnest($2::text[], $3::bigint[], $4::bigint[]) u (key, job_id, span) order by u.key
on conflict (key) do update set job_id = excluded.job_id, until = excluded.until
    where w.until <= statement_timestamp() + $1::bigint * interval '1 microsecond'
returning w.key
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
select q.id, q.name, q.priority, q.cadence_us, q.sla_us, q.owner, q.colour, q.paused, r.name as resource,
       q.concurrency, q.concurrency_min, q.concurrency_max, q.global_concurrency, r.permits, q.depth_cap, q.boost_after_us,
       coalesce((select sum(cardinality(c.ids)) from windlass.claims c where c.queue = q.id), 0)::bigint as running,
       (select count(*) from (
            select from unnest(array[q.id, -q.id]) s (queue), generate_series(0, 10) p, lateral (
                select from windlass.ready r where r.queue = s.queue and r.priority = p::smallint
                   and r.run_at <= n.now limit $2) r limit $2) x) as depth,
       (select count(*) from (
            select from unnest(array[q.id, -q.id]) s (queue), generate_series(0, 10) p, lateral (
                select from windlass.ready r where r.queue = s.queue and r.priority = p::smallint
                   and r.run_at > n.now limit $2) r limit $2) x) as scheduled,
       (select (extract(epoch from n.now - min(r.run_at)) * 1e6)::bigint
        from unnest(array[q.id, -q.id]) s (queue), generate_series(0, 10) p, lateral (
            select r.run_at from windlass.ready r where r.queue = s.queue and r.priority = p::smallint
            order by r.run_at limit 1) r where r.run_at <= n.now) as oldest_us
from n cross join windlass.queues q left join windlass.resources r on r.name = q.resource order by q.name
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
d as (delete from windlass.ready where unique_key = any ($2::text[]) and unique_key is not null and lane is null
      returning id, attempt, run_at, unique_key),
k as (delete from windlass.cancels where job_id in (select id from d)),
f as (insert into windlass.finished (id, state, attempt, finished_at)
      select d.id, 7, d.attempt, n.now from d, n)
select d.unique_key, d.run_at, n.now from d, n
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
f as materialized (
    select * from windlass.finished where id = any ($2) and state in (4, 5, 6) order by id for update),
u as (
    insert into windlass.unique_keys (key, job_id)
    select j.unique_key, j.id from f join windlass.jobs j on j.id = f.id
    where j.unique_until = 'finished' order by j.unique_key
    on conflict (key) do nothing
    returning job_id),
r as (
    insert into windlass.ready (queue, priority, run_at, id, kind, unique_key, lane)
    select case when j.lane is null then j.queue else -j.queue end, j.priority, n.now, j.id, j.kind,
           j.unique_key, j.lane
    from n, f join windlass.jobs j on j.id = f.id
    where j.unique_until is distinct from 'finished' or j.id in (select job_id from u)
    order by j.unique_key, j.id
    on conflict (unique_key) where unique_key is not null do nothing
    returning id, run_at, kind, lane),
o as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select distinct kind, run_at, lane, false from r where lane is not null),
a as (
    insert into windlass.attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
    select f.id, f.token, f.attempt, f.worker, coalesce(f.started_at, f.finished_at), f.finished_at,
           case f.state when 4 then 'failed' when 5 then 'dead_letter' else 'cancelled' end, f.error
    from f where f.token is not null),
d as (delete from windlass.finished where id in (select id from r)),
s as (
    update windlass.finished set state = 7, finished_at = n.now, token = null, worker = null from n
    where id in (select id from f) and id not in (select id from r)),
k as (delete from windlass.cancels where job_id in (select id from f)),
p as (delete from windlass.progress where job_id in (select id from r))
select (select array_agg(id) from f where id not in (select id from r)) as superseded,
       (select array_agg(id) from r) as replayed
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
r as (
    update windlass.ready r
    set queue = case when j.lane is null then 1 else -1 end * j.queue, lane = j.lane,
        run_at = greatest(n.now + coalesce(m.delay_us, 0) * interval '1 microsecond', coalesce(m.run_at, n.now))
    from n, windlass.workflow_jobs m join windlass.jobs j on j.id = m.job_id
    where m.job_id = any ($2) and j.id = any ($2) and r.id = m.job_id and r.queue = 0
    returning abs(r.queue) as queue, r.run_at, r.kind, r.lane),
o as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select distinct kind, run_at, lane, false from r where lane is not null),
s as (update windlass.workflow_jobs set state = 1 where job_id = any ($2))
select distinct queue from r
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
s as materialized (
    select s.asked, s.queue, s.kinds::int[] as kinds, s.checks
    from unnest((select $3::int[]), (select $4::text[]), (select $9::timestamptz[]))
         with ordinality s (queue, kinds, checks, asked))
select n.now, s.asked, q.id as queue, q.paused, q.concurrency, q.concurrency_min, q.concurrency_max,
       q.global_concurrency, q.boost_after_us,
       case when exists (select from windlass.cancels) then array(
            select x.job_id from windlass.cancels x
            join windlass.claims c on c.worker = $2 and x.job_id = any (c.ids)) else '{}' end as cancel,
       (select s.next_at from windlass.schedules s
        where not s.paused and s.next_at is not null and s.next_at >= $10
        order by s.next_at limit 1) as next_tick,
       least((select min(r.run_at)
         from unnest((select $5::bigint[]), (select $6::smallint[]), (select $7::timestamptz[]))
                  p (asked, priority, low), lateral (
             select r.run_at from windlass.ready r
             where r.queue = s.queue and r.priority = p.priority and r.run_at >= p.low and r.suspicion <= 1
               and r.kind = any (s.kinds)
             order by r.run_at, r.id limit 1) r
         where p.asked = s.asked),
        (select min(c.at)
         from unnest(s.kinds) k (id), lateral (
             select c.at from windlass.lane_checks c
             where c.kind = k.id and c.at >= s.checks order by c.at limit 1) c)) as next_due,
       array(select l.low::smallint from (values (1::smallint, 1::smallint), (2, 2), (3, 32767)) l (low, high)
             where exists (select from windlass.ready r
                           where r.queue = s.queue and r.suspicion > 0 and r.suspicion between l.low and l.high
                             and r.run_at <= n.now and r.kind = any (s.kinds))) as suspects,
       l.kinds as limited, l.rates, l.resources, l.permits
from n cross join (
    select array_agg(k.id) as kinds, array_agg(k.rate) as rates,
           array_agg(r.name) as resources, array_agg(r.permits) as permits
    from windlass.kinds k join windlass.queues q on q.id = k.queue
    left join windlass.resources r on r.name = coalesce(k.resource, q.resource)
    where k.id = any ((select $8::int[])::int[]) and (k.rate is not null or r.name is not null)) l
left join s on true left join windlass.queues q on q.id = s.queue
order by s.asked
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
u as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::real[], $6::text[]) with ordinality
        u (id, token, attempt, percent, body, ord)),
c as materialized (
    select c.token, c.ids from windlass.claims c
    where c.token = any (array(select distinct token from u)) order by c.token for share),
h as materialized (
    select u.* from (select token, unnest(ids) as id from c) s join u on u.token = s.token and u.id = s.id),
p as (
    insert into windlass.progress (job_id, percent, message, at)
    select distinct on (h.id) h.id, h.percent, h.body, n.now from h, n
    where h.percent is not null order by h.id, h.ord desc
    on conflict (job_id) do update
    set percent = excluded.percent, message = excluded.message, at = excluded.at),
l as (
    insert into windlass.logs (job_id, attempt, at, line)
    select h.id, h.attempt, n.now, h.body from h, n where h.percent is null order by h.ord)
select count(*) as kept, coalesce(array_agg(distinct id) filter (where percent is null), '{}') as logged from h
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
u as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::smallint[], $6::timestamptz[], $7::smallint[],
                         $8::smallint[], $9::smallint[], $10::text[], $12::timestamptz[], $13::bigint[],
                         $14::int[], $15::smallint[], $16::bigint[])
        u (id, token, attempt, claimed_at, ended, used, suspicion, error, place, lane, kind, slot, delay)),
r as (
    insert into windlass.ready (queue, priority, run_at, id, kind, attempt, suspicion, unique_key, lane, slot)
    select j.queue, j.priority, coalesce(n.now + u.delay * interval '1 microsecond', u.place), u.id, j.kind, u.used,
           u.suspicion, j.unique_key, u.lane, u.slot
    from n, u join windlass.jobs j on j.id = u.id where u.ended is null
    order by j.unique_key, u.id
    on conflict (unique_key) where unique_key is not null do nothing
    returning id),
e as materialized (
    select u.*, case when u.ended is not null then u.ended
                     when not exists (select from r where r.id = u.id) then 7 end as final
    from u),
f as (
    insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, error)
    select e.id, e.final, e.attempt, e.token, $2, e.claimed_at, n.now, e.error
    from e, n where e.final is not null),
a as (
    insert into windlass.attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
    select e.id, e.token, e.attempt, $2, e.claimed_at, n.now, $11, e.error from e, n where e.final is null),
s as materialized (
    select s.ctid, e.kind, e.lane from e cross join lateral (
        select s.ctid from windlass.lane_slots s where s.lane = e.lane and s.slot = e.slot limit 1) s
    where e.final is not null),
z as (delete from windlass.lane_slots where ctid = any (array(select ctid from s))),
o as (insert into windlass.lane_checks (kind, at, lane, freed) select distinct s.kind, n.now, s.lane, true from s, n),
k as (delete from windlass.cancels where job_id in (select id from e where final is not null))
select n.now, (select array_agg(id) from e where final = 7) as superseded from n
;

with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
u as materialized (
    select * from unnest($3::bigint[], $4::int[], $5::int[], $6::smallint[], $7::smallint[], $8::bigint[], $9::bytea[],
                         $10::text[], $11::text[], $12::text[], $13::text[], $14::int[], $15::text[], $16::boolean[],
                         $17::text[], $18::int[], $19::timestamptz[], $20::bigint[], $21::text[], $22::bytea[],
                         $23::bigint[], $24::text[])
        u (id, kind, queue, priority, max_attempts, timeout_us, payload, concurrency_key, tags, entity_type, entity_id,
           no, name, goes_on, parents, undoes, run_at, delay_us, undo, undo_payload, lane, children)),
j as (
    insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us, parent_id, payload,
                               concurrency_key, tags, entity_type, entity_id, lane)
    select id, kind, queue, priority, max_attempts, now, timeout_us, $2, payload,
           concurrency_key, tags::text[], entity_type, entity_id, lane
    from u, n),
r as (
    insert into windlass.ready (queue, priority, run_at, id, kind)
    select 0, priority, 'infinity', id, kind from u)
insert into windlass.workflow_jobs (workflow, no, job_id, name, goes_on, parents, children, undoes, run_at, delay_us,
                                    undo, undo_payload)
select $2, no, id, name, goes_on, parents::int[], children::int[], undoes, run_at, delay_us, undo, undo_payload
from u
;

with r as (
    update windlass.ready set run_at = n.now
    from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
    where id = any ($2) and run_at > n.now and queue <> 0
    returning id, run_at, kind, lane),
o as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select distinct kind, run_at, lane, false from r where lane is not null)
select id from r
;

with t as materialized (
    select * from unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
                         $6::bigint[]) with ordinality t (name, revision, was, last_tick, next_at, missed, n)),
mine as materialized (
    select t.n, s.name from t cross join lateral (
        select s.name from windlass.schedules s
        where s.name = t.name and s.revision = t.revision and s.last_tick = t.was and not s.paused
        for update skip locked) s),
moved as (
    update windlass.schedules s
    set last_tick = t.last_tick, next_at = t.next_at, missed = s.missed + t.missed
    from mine join t using (n)
    where s.name = mine.name
    returning n)
select array_agg(n) from moved
;

with taken as (
    insert into windlass.idempotency (key, job_id, fingerprint, created_at)
    select key, job_id, fingerprint, statement_timestamp() + $1::bigint * interval '1 microsecond'
    from unnest($2::text[], $3::bigint[], $4::bytea[]) with ordinality u (key, job_id, fingerprint, n)
    order by key, n
    on conflict (key) do nothing
    returning job_id)
select array_agg(job_id) from taken
;

with w as materialized (
    select id, slot from windlass.ready where id = $2 and (queue <> 0 or $4::timestamptz is null) for update)
update windlass.ready r
set priority = coalesce($3, priority),
    run_at = case when $4::timestamptz is null then run_at else greatest($4, n.now) end,
    queue = case when lane is not null and $4 > n.now then -abs(queue) else queue end,
    slot = case when $4 > n.now then null else r.slot end
from w, (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
where r.id = w.id
returning r.id, abs(queue) as queue, run_at, kind, lane, queue < 0 as blocked, w.slot
;

delete from windlass.budget_alerts where budget = $1 and month = $2 and percent = any ($3)
;

delete from windlass.claims where worker = $1 and token = any ($2)
;

delete from windlass.migrations where version = $1
;

delete from windlass.reservations where id = $1
;

delete from windlass.unique_keys where job_id = any ($1)
;

delete from windlass.vectors where entity = any ($1)
;

delete from windlass.workers where id = $1
;

delete from windlass.workers where id = $1 and beats = $2
;

insert into windlass.migrations (version, name, checksum, applied_at)
values ($1, $2, decode($3, 'hex'), statement_timestamp())
;

insert into windlass.rates (kind, given_until) values ($1, $2) on conflict do nothing
;

insert into windlass.schedules (name, spec, payload, last_tick, next_at, created_at, updated_at)
values ($1, $2::text::json, $3, $4, $5, $6, $7) on conflict (name) do nothing returning name, spec::text as spec, payload, revision, paused, last_tick, next_at, missed, created_at, updated_at
;

select array_agg(id) from windlass.ready where unique_key = $1
;

select attempt, at, line from windlass.logs where job_id = $1 order by seq
;

select configured, live from windlass.kinds where name = $1 for no key update
;

select configured, live from windlass.queues where name = $1 for no key update
;

select configured, live from windlass.resources where name = $1 for no key update
;

select d.*, l.later
from (select (select s.next_at from windlass.schedules s
              where not s.paused and s.next_at is not null and s.next_at > $1
              order by s.next_at limit 1) as later) l
left join lateral (
    select name, spec::text as spec, payload, revision, paused, last_tick, next_at, missed, created_at, updated_at
    from windlass.schedules s
    where not s.paused and s.next_at is not null and s.next_at >= $3 and s.next_at <= $1
    order by s.next_at limit $2) d on true
;

select distinct pack from windlass.pack_migrations order by 1
;

select distinct workflow from windlass.workflow_jobs where job_id = any ($1) order by workflow
;

select from windlass.finished where id = any ($1) order by id for update
;

select from windlass.ready where id = any ($1) order by id for update
;

select id from windlass.workflows where id = any ($1) order by id for update
;

select id, name, on_failure, state, created_at, ended_at from windlass.workflows where id = $1
;

select key, job_id from windlass.unique_keys where key = any ($1)
;

select key, job_id from windlass.unique_windows where key = any ($1)
;

select key, job_id, fingerprint from windlass.idempotency where key = any($1)
;

select name, paused, resource from windlass.queues where id = $1 for no key update
;

select name, permits from windlass.resources
;

select name, spec::text as spec, payload, revision, paused, last_tick, next_at, missed, created_at, updated_at from windlass.schedules where name = $1
;

select name, spec::text as spec, payload, revision, paused, last_tick, next_at, missed, created_at, updated_at from windlass.schedules where name = $1 for update
;

select no, type, id, version, fields::text as fields, state, indexed_version, job_id, error, created_at,
       updated_at
from windlass.entities where type = $1 and id = $2
;

select pack, version, name, applied_at from windlass.pack_migrations order by pack, version
;

select percent from windlass.budget_alerts where budget = $1 and month = $2
;

select spec::text as spec from windlass.types where name = $1 for update
;

select to_regclass('windlass.migrations') is not null as there
;

select token from windlass.claims where worker = $1 and token = any ($2) order by token for update
;

select token, ids from windlass.claims where worker = $1 and token <> all ($2)
;

select version, name, checksum, applied_at from windlass.migrations order by version
;

update windlass.entities e
set version = u.version, changed = pg_current_xact_id(), fields = u.fields::json, hash = u.hash, state = u.state,
    waiting = u.waiting, indexed_version = u.indexed_version, job_id = coalesce(u.job_id, e.job_id), error = null,
    updated_at = statement_timestamp() + $1::bigint * interval '1 microsecond'
from unnest($2::bigint[], $3::text[], $4::bytea[], $5::smallint[], $6::smallint[], $7::bigint[], $8::bigint[], $9::bigint[]) with ordinality u (version, fields, hash, state, waiting, indexed_version, job_id, no, n) where e.no = u.no
;

update windlass.jobs set priority = $2 where id = $1 and priority <> $2
;

update windlass.queues set paused = $2 where id = $1
;

update windlass.rates set given_until = $3 where kind = $1 and given_until = $2
;

update windlass.workers set limits = $2 where id = $1
;

with clock as materialized (
    select statement_timestamp() + $1::bigint * interval '1 microsecond' as now,
           floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22 as millisecond),
new as materialized (
    select u.*, clock.now, clock.millisecond | (nextval('windlass.job_seq') & 4194303) as id
    from clock, unnest($2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bytea[], $7::bigint[]) with ordinality
         u (kind, queue, priority, max_attempts, payload, timeout_us, n)),
ready as (
    insert into windlass.ready (queue, priority, run_at, id, kind)
    select queue, priority, now, id, kind from new),
jobs as (
    insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us, payload)
    select id, kind, queue, priority, max_attempts, now, timeout_us, payload from new)
select array_agg(id order by n), case when $9::text is not null then pg_notify($8::text, $9) end from new
;

with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
given as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::timestamptz[], $6::bytea[])
        with ordinality g (id, token, attempt, started_at, result, ord)),
claimed as materialized (
    select c.token, c.worker, c.ids from windlass.claims c
    where c.token = any (array(select distinct token from given)) order by c.token for update),
held as materialized (
    select g.*, c.worker
    from (select token, worker, unnest(ids) as id from claimed) c
    join given g on g.token = c.token and g.id = c.id),
settled as materialized (select token, array_agg(id) as ids from held group by token),
gone as (
    delete from windlass.claims k using settled s, claimed c
    where k.token = s.token and c.token = s.token and cardinality(c.ids) = cardinality(s.ids)),
kept as (
    update windlass.claims k
    set (ids, run_ats, slots) = (
        select array_agg(i.id), array_agg(i.run_at), case when k.slots is not null then array_agg(i.slot) end
        from unnest(k.ids, k.run_ats, k.slots) i (id, run_at, slot)
        where not exists (select from unnest(s.ids) d (id) where d.id = i.id))
    from settled s, claimed c
    where k.token = s.token and c.token = s.token and cardinality(c.ids) > cardinality(s.ids)),
finished as (
    insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, result)
    select h.id, 3, h.attempt, h.token, h.worker, h.started_at, clock.now, h.result
    from held h, clock order by h.id),
cancels as (
    delete from windlass.cancels where job_id = any (array(
        select id from held where exists (select from windlass.cancels))))
select g.ord, 'stale' as answer from given g where not exists (select from held h where h.ord = g.ord)
;

with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
given as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::timestamptz[], $6::bytea[], $7::smallint[],
                         $8::text[], $9::text[], $10::smallint[], $11::bigint[], $12::timestamptz[], $13::bigint[],
                         $14::int[])
        with ordinality g (id, token, attempt, started_at, result, state, error, outcome, used, delay, place, lane,
                           kind, ord)),
claimed as materialized (
    select c.token, c.worker, c.ids, c.slots, c.suspicion
    from windlass.claims c
    where c.token = any (array(select distinct token from given)) order by c.token for update),
held as materialized (
    select g.*, c.worker, c.suspicion, c.slot
    from (select token, worker, suspicion, unnest(ids) as id, unnest(slots) as slot from claimed) c
    join given g on g.token = c.token and g.id = c.id),
settled as materialized (select token, array_agg(id) as ids from held group by token),
gone as (
    delete from windlass.claims k using settled s, claimed c
    where k.token = s.token and c.token = s.token and cardinality(c.ids) = cardinality(s.ids)),
kept as (
    update windlass.claims k
    set (ids, run_ats, slots) = (
        select array_agg(i.id), array_agg(i.run_at), case when k.slots is not null then array_agg(i.slot) end
        from unnest(k.ids, k.run_ats, k.slots) i (id, run_at, slot)
        where not exists (select from unnest(s.ids) d (id) where d.id = i.id))
    from settled s, claimed c
    where k.token = s.token and c.token = s.token and cardinality(c.ids) > cardinality(s.ids)),
cancelled as (
    delete from windlass.cancels where job_id in (select id from held) returning job_id),
back as materialized (
    select h.id, j.priority, j.kind, j.unique_key, j.lane, h.used,
           case when h.outcome = 'handed_back' then h.suspicion else 0 end as suspicion,
           case when h.outcome = 'handed_back' then h.slot end as slot,
           case when j.lane is null or h.outcome = 'handed_back' then 1 else -1 end * j.queue as queue,
           coalesce(h.place, clock.now + h.delay * interval '1 microsecond') as run_at
    from clock, held h join windlass.jobs j on j.id = h.id
    where h.state is null and not exists (select from cancelled c where c.job_id = h.id)),
returned as (
    insert into windlass.ready (queue, priority, run_at, id, kind, attempt, suspicion, unique_key, lane, slot)
    select queue, priority, run_at, id, kind, used, suspicion, unique_key, lane, slot from back
    order by unique_key, id
    on conflict (unique_key) where unique_key is not null do nothing
    returning id),
ends as materialized (
    select h.*, case when h.state is not null then h.state
                     when exists (select from cancelled c where c.job_id = h.id) then 6
                     when not exists (select from returned r where r.id = h.id) then 7 end as ended
    from held h),
freed as (
    delete from windlass.lane_slots where ctid = any (array(
        select s.ctid from ends e cross join lateral (
            select s.ctid from windlass.lane_slots s where s.lane = e.lane and s.slot = e.slot limit 1) s
        where e.slot is not null and (e.ended is not null or e.outcome <> 'handed_back')
          and (select count(*) from returned) >= 0))),
checks as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select b.kind, b.run_at, b.lane, false from back b
    where b.queue < 0 and b.id in (select id from returned)),
finished as (
    insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, result, error)
    select e.id, e.ended, e.attempt, e.token, e.worker, e.started_at, clock.now, e.result, e.error
    from ends e, clock where e.ended is not null order by e.id),
attempts as (
    insert into windlass.attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
    select e.id, e.token, e.attempt, e.worker, e.started_at, clock.now, e.outcome, e.error
    from ends e, clock where e.ended is null)
select g.ord,
       case when e.ord is null then 'stale' when e.ended = 7 then 'superseded' else 'cancelled' end as answer
from given g left join ends e on e.ord = g.ord
where e.ord is null or (e.state is null and e.ended is not null)
;

with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
kinds as materialized (
    select k.id from clock cross join windlass.kinds k cross join lateral (
        select from windlass.lane_checks c where c.kind = k.id and c.at >= $3 and c.at <= clock.now limit 1) c
    where k.id = any ($2::int[])
    order by k.id for no key update of k),
due as materialized (
    select c.ctid from clock cross join kinds k cross join lateral (
        select c.ctid from windlass.lane_checks c
        where c.kind = k.id and c.at >= $3 and c.at <= clock.now
        order by c.at limit greatest($4::bigint / (select count(*) from kinds), 1)) c)
delete from windlass.lane_checks c where c.ctid = any (array(select ctid from due))
returning c.kind, c.lane, c.at, c.freed
;

with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
lanes as materialized (
    select u.lane, u.kind, k.key_concurrency, q.boost_after_us,
           array(select s.slot from windlass.lane_slots s where s.lane = u.lane) as taken,
           first.address, first.id, first.priority as first_priority, first.run_at,
           (select r.priority from windlass.ready r where -r.queue > 0 and r.lane = u.lane
            order by r.priority desc, r.run_at desc, r.id desc limit 1) as last_priority
    from unnest($2::bigint[], $3::int[]) u (lane, kind)
    join windlass.kinds k on k.id = u.kind join windlass.queues q on q.id = k.queue
    left join lateral (
        select r.ctid as address, r.id, r.priority, r.run_at from windlass.ready r
        where -r.queue > 0 and r.lane = u.lane
        order by r.priority, r.run_at, r.id limit 1) first on true),
open as materialized (
    select l.*,
           l.key_concurrency = 1 and l.first_priority = l.last_priority and l.run_at <= clock.now as first_is_next,
           array(select s.slot::smallint from generate_series(1, l.key_concurrency::int) s (slot)
                 where s.slot <> all (l.taken) order by s.slot
                 limit greatest(l.key_concurrency - cardinality(l.taken), 0)) as free
    from clock cross join lanes l),
candidates as materialized (
    select lane, address, id, first_priority as priority, run_at from open
    where first_is_next and cardinality(free) > 0
    union all
    select o.lane, r.ctid, r.id, r.priority, r.run_at
    from open o cross join clock cross join generate_series(o.first_priority::int, o.last_priority::int) p (priority)
    cross join lateral (
        select r.ctid, r.id, r.priority, r.run_at from windlass.ready r
        where -r.queue > 0 and r.lane = o.lane and r.priority = p.priority::smallint and r.run_at <= clock.now
        order by r.run_at, r.id limit cardinality(o.free)) r
    where not o.first_is_next),
locked as materialized (
    select r.ctid as address from windlass.ready r
    where r.ctid = any (array(select address from candidates)) and -r.queue > 0
    for update skip locked)
select clock.now, o.lane, o.kind, o.boost_after_us, o.free, c.address, c.id, c.priority, c.run_at,
       c.address in (select address from locked) as locked
from clock cross join open o left join candidates c on c.lane = o.lane
;

with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
new as materialized (
    select u.*, clock.now,
           case when at is null and delay is null then clock.now
                when $18::boolean and at is not null then at
                else greatest(clock.now, coalesce(at, clock.now + delay * interval '1 microsecond'))
           end as run_at,
           coalesce(given, (floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22)
                           | (nextval('windlass.job_seq') & 4194303)) as id
    from clock, unnest($2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bytea[], $7::bigint[], $8::bigint[],
                       $9::timestamptz[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[],
                       $15::text[], $16::text[], $17::text[]) with ordinality
         u (kind, queue, priority, max_attempts, payload, timeout_us, given, at, delay, unique_key, unique_until,
            concurrency_key, lane, tags, entity_type, entity_id, n)),
ready as (
    insert into windlass.ready (queue, priority, run_at, id, kind, unique_key, lane)
    select case when lane is null then 1 else -1 end * queue, priority, run_at, id, kind, unique_key, lane
    from new order by unique_key, n
    on conflict (unique_key) where unique_key is not null do nothing
    returning id),
written as materialized (select * from new where id in (select id from ready)),
jobs as (
    insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us, payload, unique_key,
                               unique_until, concurrency_key, lane, tags, entity_type, entity_id)
    select id, kind, queue, priority, max_attempts, now, timeout_us, payload, unique_key, unique_until,
           concurrency_key, lane, tags::text[], entity_type, entity_id
    from written),
checks as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select distinct kind, run_at, lane, false from written where lane is not null)
select array_agg(id order by n), case when $20::text is not null then pg_notify($19::text, $20) end from written
;

with d as (
    delete from windlass.workflows where id = any (array(
        select id from windlass.workflows where ended_at < $1 and state in (1, 3, 5) limit $2)) returning id),
m as (delete from windlass.workflow_jobs where workflow in (select id from d))
select count(*) as gone from d
;

with d as (
    delete from windlass.workflows where id = any (array(
        select id from windlass.workflows where ended_at < $1 and state in (2) limit $2)) returning id),
m as (delete from windlass.workflow_jobs where workflow in (select id from d))
select count(*) as gone from d
;

with gate as materialized (
    select statement_timestamp() + $1::bigint * interval '1 microsecond' as now,
           exists (select from windlass.lane_checks c
                   where c.kind = any ($5::int[]) and c.at >= $7::timestamptz
                     and c.at <= statement_timestamp() + $1::bigint * interval '1 microsecond') as checks,
           q.global_concurrency is not null as limited
    from windlass.workers w cross join windlass.queues q
    where w.id = $2 and q.id = $3 and not q.paused
    for key share of w),
counted as (
    update windlass.queues q set limited_claims = q.limited_claims + 1 from gate
    where q.id = $3 and q.limited_claims = $8::bigint and gate.limited and not gate.checks
    returning q.id),
due as materialized (
    select r.ctid
    from gate cross join unnest($6::timestamptz[]) with ordinality p (low, n)
    cross join lateral (
        select r.ctid from windlass.ready r
        where r.queue = $3 and r.priority = (p.n - 1)::smallint and r.run_at >= p.low and r.run_at <= gate.now
          and r.suspicion <= 1 and r.kind = any ($5::int[])
        order by r.run_at, r.id limit $4 for update skip locked) r
    where not gate.checks and (not gate.limited or exists (select from counted))
    limit $4),
taken as (
    delete from windlass.ready r where r.ctid = any (array(select ctid from due))
    returning r.id, r.kind, r.priority, r.run_at, r.attempt, r.suspicion, r.lane, r.slot),
leases as (
    insert into windlass.claims (token, worker, queue, attempt, suspicion, alone, claimed_at, ids, run_ats, slots)
    select nextval('windlass.token_seq'), $2, $3, t.attempt + 1, t.suspicion, false, gate.now, t.ids, t.run_ats, t.slots
    from gate, (select attempt, suspicion, array_agg(id) as ids, array_agg(run_at) as run_ats,
                       case when bool_or(slot is not null) then array_agg(slot) end as slots
                from taken group by attempt, suspicion) t
    returning token, attempt, suspicion)
select gate.now, gate.checks, gate.limited and not exists (select from counted) as blocked,
       t.ids, t.kinds, t.priorities, t.run_ats, t.attempts, t.suspicions, t.lanes,
       l.tokens, l.leased_attempts, l.leased_suspicions,
       null::bigint as id, null::bytea as payload, null::smallint as max_attempts, null::bigint as timeout_us,
       null::timestamptz as created_at, null::bigint as parent_id, null::boolean as holds_key
from gate,
     (select array_agg(id) as ids, array_agg(kind) as kinds, array_agg(priority) as priorities,
             array_agg(run_at) as run_ats, array_agg(attempt) as attempts, array_agg(suspicion) as suspicions,
             array_agg(lane) as lanes
      from taken) t,
     (select array_agg(token) as tokens, array_agg(attempt) as leased_attempts,
             array_agg(suspicion) as leased_suspicions from leases) l
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null,
       j.id, j.payload, j.max_attempts, j.timeout_us, j.created_at, j.parent_id,
       j.unique_until is not distinct from 'finished'
from windlass.jobs j
where j.id = any (array(select id from taken))
  and j.id >= (select min(id) from taken) and j.id <= (select max(id) from taken)
;

with gate as materialized (
    select statement_timestamp() + $1::bigint * interval '1 microsecond' as now, false as checks,
           q.global_concurrency is not null as limited
    from windlass.workers w cross join windlass.queues q
    where w.id = $2 and q.id = $3 and not q.paused
    for key share of w),
counted as (
    update windlass.queues q set limited_claims = q.limited_claims + 1 from gate
    where q.id = $3 and q.limited_claims = $6::bigint and gate.limited
    returning q.id),
due as materialized (
    select r.ctid
    from gate cross join lateral (
        select r.ctid from windlass.ready r
        where r.queue = $3 and r.run_at <= gate.now and r.suspicion > 0
          and r.suspicion between $7::smallint and $8::smallint and r.kind = any ($5::int[])
        order by r.priority, r.run_at, r.id limit $4 for update skip locked) r
    where not gate.limited or exists (select from counted)
    limit $4),
taken as (
    delete from windlass.ready r where r.ctid = any (array(select ctid from due))
    returning r.id, r.kind, r.priority, r.run_at, r.attempt, r.suspicion, r.lane, r.slot),
leases as (
    insert into windlass.claims (token, worker, queue, attempt, suspicion, alone, claimed_at, ids, run_ats, slots)
    select nextval('windlass.token_seq'), $2, $3, t.attempt + 1, t.suspicion, $9, gate.now, t.ids, t.run_ats, t.slots
    from gate, (select attempt, suspicion, array_agg(id) as ids, array_agg(run_at) as run_ats,
                       case when bool_or(slot is not null) then array_agg(slot) end as slots
                from taken group by attempt, suspicion) t
    returning token, attempt, suspicion)
select gate.now, gate.checks, gate.limited and not exists (select from counted) as blocked,
       t.ids, t.kinds, t.priorities, t.run_ats, t.attempts, t.suspicions, t.lanes,
       l.tokens, l.leased_attempts, l.leased_suspicions,
       null::bigint as id, null::bytea as payload, null::smallint as max_attempts, null::bigint as timeout_us,
       null::timestamptz as created_at, null::bigint as parent_id, null::boolean as holds_key
from gate,
     (select array_agg(id) as ids, array_agg(kind) as kinds, array_agg(priority) as priorities,
             array_agg(run_at) as run_ats, array_agg(attempt) as attempts, array_agg(suspicion) as suspicions,
             array_agg(lane) as lanes
      from taken) t,
     (select array_agg(token) as tokens, array_agg(attempt) as leased_attempts,
             array_agg(suspicion) as leased_suspicions from leases) l
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null,
       j.id, j.payload, j.max_attempts, j.timeout_us, j.created_at, j.parent_id,
       j.unique_until is not distinct from 'finished'
from windlass.jobs j where j.id = any (array(select id from taken))
;

with i as (
    insert into windlass.entities (type, id, version, changed, fields, hash, state, waiting, indexed_version,
                                   job_id, created_at, updated_at)
    select u.type, u.id, u.version, pg_current_xact_id(), u.fields::json, u.hash, u.state, u.waiting,
           u.indexed_version, u.job_id, t.now, t.now
    from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) t, unnest($2::bigint[], $3::text[], $4::bytea[], $5::smallint[], $6::smallint[], $7::bigint[], $8::bigint[], $9::int[], $10::text[]) with ordinality u (version, fields, hash, state, waiting, indexed_version, job_id, type, id, n)    order by u.n
    on conflict (type, id) do nothing
    returning no, type, id)
select array_agg(no), array_agg(type), array_agg(id) from i
;

with s as materialized (select pg_current_snapshot() as now), c as materialized (select no, changed as place from (
    (select no, changed from windlass.entities
     where changed = any (array(select pg_snapshot_xip($3::text::pg_snapshot)))
       and (changed, no) > ($4::text::xid8, $5)
     order by changed, no limit $2)
    union all
    (select no, changed from windlass.entities
     where (changed, no) > (greatest($4::text::xid8, pg_snapshot_xmax($3::text::pg_snapshot)),
                            case when $4::text::xid8 < pg_snapshot_xmax($3::text::pg_snapshot) then 0 else $5 end)
       and changed < (select pg_snapshot_xmax(now) from s)
     order by changed, no limit $2)) u
order by changed, no limit $2) select s.now::text as now, e.*
          from s left join (c cross join lateral (
              select e.changed::text as changed, e.no, e.type, e.id, e.version, e.fields::text as fields, v.vector,
                     coalesce(v.hash = e.hash, false) as indexed
              from windlass.entities e left join windlass.vectors v on v.entity = e.no and v.space = $1
              where e.no = c.no limit 1) e) on true
          order by c.place, c.no
;

with s as materialized (select pg_current_snapshot() as now), c as materialized (select no, no as place from windlass.entities where no > $3 and state <> 4 order by no limit $2) select s.now::text as now, e.*
from s left join (c cross join lateral (
    select e.changed::text as changed, e.no, e.type, e.id, e.version, e.fields::text as fields, v.vector,
           coalesce(v.hash = e.hash, false) as indexed
    from windlass.entities e left join windlass.vectors v on v.entity = e.no and v.space = $1
    where e.no = c.no limit 1) e) on true
order by c.place, c.no
;

with v as materialized (
    select id from windlass.finished
    where state in (3, 6, 7) and finished_at < $1 and id > $2 and id < $3
      and not exists (
          select from windlass.workflow_jobs m join windlass.workflows w on w.id = m.workflow
          where m.job_id = finished.id and w.ended_at is null)
    order by id limit $4),
d as (delete from windlass.finished where id in (select id from v) returning id),
j as (delete from windlass.jobs where id in (select id from d)),
a as (delete from windlass.attempts where id in (select id from d)),
l as (delete from windlass.logs where job_id in (select id from d)),
p as (delete from windlass.progress where job_id in (select id from d)),
k as (delete from windlass.cancels where job_id in (select id from d))
select (select count(*) from d) as gone, (select max(id) from v) as last
;

with v as materialized (
    select id from windlass.finished
    where state in (4, 5) and finished_at < $1 and id > $2 and id < $3
      and not exists (
          select from windlass.workflow_jobs m join windlass.workflows w on w.id = m.workflow
          where m.job_id = finished.id and w.ended_at is null)
    order by id limit $4),
d as (delete from windlass.finished where id in (select id from v) returning id),
j as (delete from windlass.jobs where id in (select id from d)),
a as (delete from windlass.attempts where id in (select id from d)),
l as (delete from windlass.logs where job_id in (select id from d)),
p as (delete from windlass.progress where job_id in (select id from d)),
k as (delete from windlass.cancels where job_id in (select id from d))
select (select count(*) from d) as gone, (select max(id) from v) as last
;

with wanted as materialized (
    select * from unnest($1::tid[], $2::bigint[], $3::smallint[], $4::timestamptz[], $5::int[])
        u (address, lane, slot, place, kind)),
got as (
    insert into windlass.lane_slots (lane, slot) select lane, slot from wanted order by lane, slot
    on conflict do nothing returning lane, slot),
moved as (
    update windlass.ready r set queue = -r.queue, run_at = w.place, slot = w.slot
    from wanted w
    where r.ctid = w.address and ((w.lane, w.slot) in (select lane, slot from got)) is true
    returning r.queue, r.run_at),
checks as (
    insert into windlass.lane_checks (kind, at, lane, freed)
    select * from unnest($6::int[], $7::timestamptz[], $8::bigint[], $9::boolean[])
    union all
    select w.kind, w.place, w.lane, false from wanted w
    where ((w.lane, w.slot) in (select lane, slot from got)) is not true)
select queue, min(run_at) as run_at, count(*) as jobs from moved group by queue
;

