drop table windlass.pack_migrations;
