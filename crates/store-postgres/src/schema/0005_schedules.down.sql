drop table windlass.schedules;
