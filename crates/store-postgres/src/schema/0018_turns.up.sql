-- Nothing here: Postgres moves the head of a lane among the ready jobs. The step exists because a copy of one database is
-- read into the other by the number of its schema.
select 1;
