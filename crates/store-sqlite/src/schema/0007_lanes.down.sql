drop table windlass_looks;
drop table windlass_slots;
alter table windlass_claims drop column laned;
drop index windlass_ready_lined;
update windlass_ready set queue = abs(queue) where queue < 0;
alter table windlass_ready drop column lane;
alter table windlass_jobs drop column lane;
alter table windlass_kinds drop column key_concurrency;
