-- Jobs of a queue that may be leased at once, over all processes. What is leased is counted in the claims. Claims of a
-- limited queue count, then claim if none came in between, which limited_claims tells: no lock outlives a statement, and
-- a process that stops in the middle stops nobody else.
alter table windlass.queues
    add global_concurrency integer check (global_concurrency > 0),
    add live_global_concurrency integer check (live_global_concurrency > 0),
    add live_global_concurrency_set boolean not null default false,
    add limited_claims bigint not null default 0;

create index claims_queue on windlass.claims (queue);
