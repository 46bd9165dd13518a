drop table windlass.backups;
