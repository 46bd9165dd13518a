delete from windlass.idempotency where answer is not null;
alter table windlass.idempotency drop column answer;
