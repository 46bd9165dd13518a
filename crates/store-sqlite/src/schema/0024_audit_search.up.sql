-- What operators did is asked by whom, of what and when. Acts are few, so each question may have its index.
create index windlass_audit_actor on windlass_audit (actor, seq);
create index windlass_audit_act on windlass_audit (act, seq);
create index windlass_audit_subject on windlass_audit (subject, seq);
create index windlass_audit_at on windlass_audit (at);
