-- Jobs of the queue that have been due for longer are served whatever their priority, in a share of the slots. Null: none are.
alter table windlass.queues add boost_after_us bigint default 600000000 check (boost_after_us > 0);
