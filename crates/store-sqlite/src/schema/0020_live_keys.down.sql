update windlass_kinds set key_concurrency = configured_key_concurrency;
alter table windlass_kinds drop column live_key_concurrency;
alter table windlass_kinds drop column configured_key_concurrency;
