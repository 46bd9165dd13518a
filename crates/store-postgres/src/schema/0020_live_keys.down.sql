update windlass.kinds set key_concurrency = configured_key_concurrency;
alter table windlass.kinds drop column live_key_concurrency;
alter table windlass.kinds drop column configured_key_concurrency;
