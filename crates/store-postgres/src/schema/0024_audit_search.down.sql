drop index windlass.audit_actor;
drop index windlass.audit_act;
drop index windlass.audit_subject;
drop index windlass.audit_at;
