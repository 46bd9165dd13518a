-- Steps of packs that are applied. Rows of packs that a binary does not have are none of its business.
create table windlass_pack_migrations (
    pack       text not null,
    version    integer not null,
    name       text not null,
    checksum   text not null,
    applied_at integer not null,
    primary key (pack, version)
) strict, without rowid;
