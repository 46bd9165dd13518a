-- Nothing here: Postgres notes which queues have lanes.
select 1;
