alter table windlass_claims drop column limited;
alter table windlass_queues drop column live_global_concurrency_set;
alter table windlass_queues drop column live_global_concurrency;
alter table windlass_queues drop column global_concurrency;
