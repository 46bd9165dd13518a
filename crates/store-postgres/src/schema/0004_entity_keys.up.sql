-- A key may also be that of an entity's write: then job_id is 0 and answer is what the write was answered. An older
-- process that meets such a key finds another fingerprint, and refuses.
alter table windlass.idempotency add column answer text;
