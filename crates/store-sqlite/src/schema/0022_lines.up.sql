-- Nothing here: on Postgres a process remembers who stands behind whom in lanes.
select 1;
