-- What an operator says about key_concurrency, and what is configured; key_concurrency is what holds of the two.
alter table windlass_kinds add column configured_key_concurrency integer not null default 1;
alter table windlass_kinds add column live_key_concurrency integer check (live_key_concurrency between 1 and 10000);
update windlass_kinds set configured_key_concurrency = key_concurrency;
