alter table windlass.queues drop column boost_after_us;
