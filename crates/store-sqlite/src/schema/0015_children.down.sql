drop index windlass_workflow_jobs_open;
create index windlass_workflow_jobs_open on windlass_workflow_jobs (job_id) where state in (0, 1);

alter table windlass_workflow_jobs drop column children;
