alter table windlass.queues drop column laned;
