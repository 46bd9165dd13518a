alter table windlass.workers drop column limits;
alter table windlass.queues
    drop column live_concurrency_max,
    drop column live_concurrency_min,
    drop column concurrency_max,
    drop column concurrency_min,
    drop column resource;
alter table windlass.kinds drop column resource, drop column live_rate, drop column rate;
drop table windlass.rates;
drop table windlass.resources;
