-- That jobs of lanes were ever put in the queue. One that never had any is claimed without a look at lanes and turns; of those
-- that are here already nobody knows.
alter table windlass.queues add laned boolean not null default true;
alter table windlass.queues alter laned set default false;

-- Only they are asked for turns, by priority. An index of another order was taken for that too where the planner had nothing to
-- choose by, and each priority walked over the turns of all.
drop index windlass.turns_at;
