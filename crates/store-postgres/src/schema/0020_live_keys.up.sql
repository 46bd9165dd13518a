-- What an operator says about key_concurrency, and what is configured; key_concurrency is what holds of the two.
alter table windlass.kinds add configured_key_concurrency smallint not null default 1;
alter table windlass.kinds add live_key_concurrency smallint check (live_key_concurrency between 1 and 10000);
update windlass.kinds set configured_key_concurrency = key_concurrency;
