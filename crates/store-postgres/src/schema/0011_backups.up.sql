-- Copies that were made of this database, known by the SHA-256 of their file.
create table windlass.backups (
    digest      text primary key,
    file        text not null,
    taken_at    timestamptz not null,
    rows        bigint not null,
    bytes       bigint not null,
    verified_at timestamptz
);
