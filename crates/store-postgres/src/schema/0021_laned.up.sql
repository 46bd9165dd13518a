-- That jobs of lanes were ever put in the queue. One that never had any is claimed without a look at lanes and turns; of those
-- that are here already nobody knows.
alter table windlass.queues add laned boolean not null default true;
alter table windlass.queues alter laned set default false;
