-- Nothing here: Postgres checks a list of values cheaply. The step exists because a copy of one database is read into the
-- other by the number of its schema.
select 1;
