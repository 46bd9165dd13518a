delete from windlass_idempotency where answer is not null;
alter table windlass_idempotency drop column answer;
