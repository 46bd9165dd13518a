-- What operators did is asked by whom, of what and when. Acts are few, so each question may have its index.
create index audit_actor on windlass.audit (actor, seq);
create index audit_act on windlass.audit (act collate "C", seq);
create index audit_subject on windlass.audit (subject, seq);
create index audit_at on windlass.audit (at);
