-- Steps of packs that are applied. Rows of packs that a binary does not have are none of its business.
create table windlass.pack_migrations (
    pack       text not null,
    version    bigint not null,
    name       text not null,
    checksum   bytea not null,
    applied_at timestamptz not null,
    primary key (pack, version)
);
