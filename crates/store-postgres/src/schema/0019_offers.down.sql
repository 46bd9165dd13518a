-- What was offered is free again, with a look.
insert into windlass.looks (kind, at, lane, freed)
select distinct t.kind, t.run_at, o.lane, true from windlass.turns t cross join unnest(t.lanes) o (lane);
drop table windlass.turns;

delete from windlass.slots;
alter table windlass.slots add job_id bigint not null;
insert into windlass.slots (lane, slot, job_id)
select lane, slot, id from windlass.ready where slot is not null
union all
select j.lane, i.slot, i.id
from windlass.claims c cross join unnest(c.ids, c.slots) i (id, slot) join windlass.jobs j on j.id = i.id
where i.slot is not null;

alter table windlass.kinds drop column key_lowered;
alter table windlass.claims drop column slots;
alter table windlass.ready drop column slot;
