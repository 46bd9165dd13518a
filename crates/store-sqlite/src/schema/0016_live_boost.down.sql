alter table windlass_queues drop column live_boost_after_us;
