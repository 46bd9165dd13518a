-- Jobs of a queue that may be leased at once, over all processes. What is leased is counted in the claims, under the one
-- writer; nothing is kept beside them.
alter table windlass_queues add column global_concurrency integer check (global_concurrency > 0);
alter table windlass_queues add column live_global_concurrency integer check (live_global_concurrency > 0);
alter table windlass_queues add column live_global_concurrency_set integer not null default 0
    check (live_global_concurrency_set in (0, 1));

-- limited: leased while its queue had such a limit, so that somebody may wait for its end.
alter table windlass_claims add column limited integer not null default 0 check (limited in (0, 1));
