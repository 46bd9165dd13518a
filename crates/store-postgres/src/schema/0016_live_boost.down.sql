alter table windlass.queues drop column live_boost_after_us;
