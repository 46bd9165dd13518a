drop view windlass_job_view;
drop table windlass_rollups;
