drop table windlass_pack_migrations;
