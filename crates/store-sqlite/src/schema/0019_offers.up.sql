-- Nothing here: turns came with the step before. Postgres has them from this one on.
select 1;
