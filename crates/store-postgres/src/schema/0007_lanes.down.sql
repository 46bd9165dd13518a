drop table windlass.looks;
drop table windlass.slots;
drop index windlass.ready_lined;
update windlass.ready set queue = abs(queue) where queue < 0;
alter table windlass.ready drop column lane;
alter table windlass.jobs drop column lane;
alter table windlass.kinds drop column key_concurrency;
-- Tokens were twice the sequence; they may only grow.
select setval('windlass.token_seq', greatest(2 * (select last_value from windlass.token_seq), 1));
