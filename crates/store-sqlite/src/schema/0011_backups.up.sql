-- Copies that were made of this database, known by the SHA-256 of their file.
create table windlass_backups (
    digest      text primary key,
    file        text not null,
    taken_at    integer not null,
    rows        integer not null,
    bytes       integer not null,
    verified_at integer
) strict;
