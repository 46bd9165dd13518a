drop index windlass_audit_actor;
drop index windlass_audit_act;
drop index windlass_audit_subject;
drop index windlass_audit_at;
