drop table windlass.looks;
drop table windlass.slots;
drop index windlass.ready_lined;
update windlass.ready set queue = abs(queue) where queue < 0;
alter table windlass.ready drop column lane;
alter table windlass.jobs drop column lane;
alter table windlass.kinds drop column key_concurrency;
-- Tokens were twice the sequence; they may only grow. Each way down and up again doubles them: some thirty times are left to
-- a database of a thousand million claims.
select setval('windlass.token_seq', greatest(2 * (select last_value from windlass.token_seq), 1));
