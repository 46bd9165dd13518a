drop table windlass_backups;
