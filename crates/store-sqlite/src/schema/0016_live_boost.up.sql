-- What an operator says about boost_after. Null: as configured. 0: no job is boosted.
alter table windlass_queues add column live_boost_after_us integer check (live_boost_after_us >= 0);
