alter table windlass_queues drop column boost_after_us;
