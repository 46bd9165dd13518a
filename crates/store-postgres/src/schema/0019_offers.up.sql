-- Whoever holds a slot of a lane knows its number: a head, a lease, an offer. So the slot itself is not touched when it is
-- handed over.
alter table windlass.ready add slot smallint;
update windlass.ready r set slot = s.slot from windlass.slots s where s.job_id = r.id and s.lane = r.lane and r.queue > 0;

alter table windlass.claims add slots smallint[],
    add constraint claims_slots_match check (cardinality(slots) = cardinality(ids));
alter table windlass.claims alter column slots set storage external;
update windlass.claims c set slots = (
    select array_agg(s.slot order by i.n)
    from unnest(c.ids) with ordinality i (id, n)
    left join windlass.jobs j on j.id = i.id left join windlass.slots s on s.lane = j.lane and s.job_id = i.id)
where c.token % 2 <> 0;

alter table windlass.slots drop column job_id;

-- That slots above its limit may be taken.
alter table windlass.kinds add key_lowered boolean not null default true;

-- The slot of a lane with one, offered to who stands first in line: lists of lanes, jobs and the addresses of their rows in
-- ready, some dozens in a row, in the order of claims. The job stays in line.
create table windlass.turns (
    queue     integer not null,
    priority  smallint not null,
    run_at    timestamptz not null,
    kind      integer not null,
    lanes     bigint[] not null,
    ids       bigint[] not null,
    addresses tid[] not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create index turns_order on windlass.turns (queue, priority, run_at);
-- That there are any, whatever their priority.
create index turns_at on windlass.turns (queue, run_at);
