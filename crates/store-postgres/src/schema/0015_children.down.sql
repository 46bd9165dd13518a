drop index windlass.workflow_jobs_open;
create index workflow_jobs_open on windlass.workflow_jobs (job_id) where state in (0, 1);

alter table windlass.workflow_jobs drop column children;
