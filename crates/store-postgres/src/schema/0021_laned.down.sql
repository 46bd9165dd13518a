create index turns_at on windlass.turns (queue, run_at);
alter table windlass.queues drop column laned;
