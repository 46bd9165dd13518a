-- Who holds a slot gets its name on it again; what was offered is looked at.
insert into windlass_looks (kind, at, lane, freed)
select t.kind, min(t.place), o.value ->> 0, 1 from windlass_turns t, json_each(t.offers) o where true group by 1, 3
on conflict (kind, at, lane) do update set freed = 1;
alter table windlass_kinds drop column key_lowered;
drop table windlass_turns;
drop table windlass_slots;
create table windlass_slots (
    lane   integer not null,
    slot   integer not null check (slot > 0),
    job_id integer not null,
    primary key (lane, slot)
) strict, without rowid;
insert into windlass_slots (lane, slot, job_id)
select lane, row_number() over (partition by lane order by id), id
from (select lane, id from windlass_ready where queue > 0 and lane is not null
      union all
      select j.lane, j.id from windlass_leases l join windlass_jobs j on j.id = l.id where j.lane is not null);
create index windlass_ready_lined on windlass_ready (lane, priority, run_at, id) where queue < 0;
drop table windlass_lines;
