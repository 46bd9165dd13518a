drop view windlass.job_view;
drop table windlass.rollups;
