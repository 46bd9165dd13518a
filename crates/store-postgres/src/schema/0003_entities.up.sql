-- Entities -------------------------------------------------------------------------------------------------------

create table windlass.types (
    id         integer generated always as identity primary key,
    name       text not null unique,
    spec       json not null,
    updated_at timestamptz not null
);

-- One row per entity, kept as a tombstone without content when it is deleted, so that its version never starts again.
-- changed is the change feed: the transaction that changed the row last. Transactions end in another order than they
-- begin, so a reader compares it with the snapshot of its last look, never with the largest it saw.
-- hash: of the searched text. state: 1 pending, 2 indexed (a vector of this hash is stored), 3 failed, 4 deleted.
-- waiting: the strategy of the box under way, 2 async or 3 batch.
-- type names a row of types, which never go; a foreign key would lock that row once per entity.
-- fields is json, not jsonb: the order of its keys is kept. Ids compare by bytes, as on SQLite.
create table windlass.entities (
    no              bigint generated always as identity primary key,
    type            integer not null,
    id              text collate "C" not null,
    version         bigint not null check (version > 0),
    changed         xid8 not null,
    fields          json,
    hash            bytea,
    state           smallint not null check (state in (1, 2, 3, 4)),
    waiting         smallint check (waiting in (2, 3)),
    indexed_version bigint,
    job_id          bigint,
    error           text,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    constraint entities_tombstone_empty check ((fields is null) = (state = 4)),
    constraint entities_hash_of_fields check ((fields is null) = (hash is null))
);

create unique index entities_id on windlass.entities (type, id);
create index entities_changed on windlass.entities (changed, no);
create index entities_pending on windlass.entities (no) where state = 1;

-- The vector an entity has in a space, and the content it is of. Vectors do not compress.
create table windlass.vectors (
    entity bigint not null,
    space  text not null,
    hash   bytea not null,
    vector bytea not null,
    primary key (entity, space)
);
alter table windlass.vectors alter column vector set storage external;
