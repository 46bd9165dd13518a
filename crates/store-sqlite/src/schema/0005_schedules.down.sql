drop table windlass_schedules;
