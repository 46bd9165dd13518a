-- A job that waits has nobody left to wait for.
update windlass_ready set queue = (select j.queue from windlass_jobs j where j.id = windlass_ready.id), run_at = 0
where queue = 0;
drop index windlass_ready_lined;
update windlass_ready set queue = abs(queue) where queue < 0;
alter table windlass_ready drop column lane;
alter table windlass_ready add column lane integer check (queue > 0 or lane is not null);
update windlass_ready set lane = (select j.lane from windlass_jobs j where j.id = windlass_ready.id);
update windlass_ready set queue = -queue
where lane is not null
  and not exists (select 1 from windlass_slots s where s.lane = windlass_ready.lane and s.job_id = windlass_ready.id);
create index windlass_ready_lined on windlass_ready (lane, priority, run_at, id) where queue < 0;
insert or ignore into windlass_looks (kind, at, lane, freed)
select distinct kind, run_at, lane, 0 from windlass_ready where queue < 0 and run_at = 0;
drop table windlass_workflow_jobs;
drop table windlass_workflows;
