-- A job that waits has nobody left to wait for.
with r as (
    update windlass.ready r
    set queue = case when j.lane is null then 1 else -1 end * j.queue, lane = j.lane, run_at = now()
    from windlass.jobs j where r.queue = 0 and j.id = r.id
    returning r.kind, r.run_at, r.lane)
insert into windlass.looks (kind, at, lane, freed) select distinct kind, run_at, lane, false from r where lane is not null;
alter table windlass.ready drop constraint ready_lined_has_lane,
    add constraint ready_lined_has_lane check (queue > 0 or lane is not null);
drop table windlass.workflow_jobs;
drop table windlass.workflows;
