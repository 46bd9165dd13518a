-- children: places of the jobs that run after this one, so that its end looks at those alone. Null in workflows written before:
-- their ends look at all jobs of the workflow. Whether one of a workflow is open is asked at each end.
alter table windlass.workflow_jobs add children integer[];

drop index windlass.workflow_jobs_open;
create index workflow_jobs_open on windlass.workflow_jobs (workflow, no) where state in (0, 1);
