-- Jobs of the queue that have been due for longer are served whatever their priority, in a share of the slots. Null: none are.
alter table windlass_queues add column boost_after_us integer default 600000000 check (boost_after_us > 0);
