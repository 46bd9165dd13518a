-- The most urgent priority under which a job of the kind ever stood in line: who stands there under that one has nobody more
-- urgent before him. 0 where nobody knows, 11 where nobody stood.
alter table windlass_kinds add column lined integer not null default 0 check (lined between 0 and 11);
update windlass_kinds
set lined = coalesce((select min(r.priority) from windlass_ready r where r.queue < 0 and r.kind = windlass_kinds.id), 11);
