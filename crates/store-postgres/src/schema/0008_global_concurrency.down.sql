drop index windlass.claims_queue;
alter table windlass.queues
    drop column limited_claims,
    drop column live_global_concurrency_set,
    drop column live_global_concurrency,
    drop column global_concurrency;
