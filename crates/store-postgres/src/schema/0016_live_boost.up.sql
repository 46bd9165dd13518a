-- What an operator says about boost_after. Null: as configured. 0: no job is boosted.
alter table windlass.queues add live_boost_after_us bigint check (live_boost_after_us >= 0);
