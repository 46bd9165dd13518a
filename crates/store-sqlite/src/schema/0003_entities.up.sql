-- Entities -------------------------------------------------------------------------------------------------------

create table windlass_types (
    id         integer primary key,
    name       text not null unique,
    spec       text not null check (json_valid(spec)),
    updated_at integer not null
) strict;

-- One row per entity, kept as a tombstone without content when it is deleted, so that its version never starts again.
-- seq is the change feed: every change of a row moves it to the end, and a reader asks for what lies behind its last.
-- hash: of the searched text. state: 1 pending, 2 indexed (a vector of this hash is stored), 3 failed, 4 deleted.
-- waiting: the strategy of the box under way, 2 async or 3 batch.
create table windlass_entities (
    no              integer primary key,
    type            integer not null references windlass_types (id),
    id              text not null,
    version         integer not null check (version > 0),
    seq             integer not null,
    fields          text check (json_valid(fields)),
    hash            blob,
    state           integer not null check (state in (1, 2, 3, 4)),
    waiting         integer check (waiting in (2, 3)),
    indexed_version integer,
    job_id          integer,
    error           text,
    created_at      integer not null,
    updated_at      integer not null,
    check ((fields is null) = (state = 4)),
    check ((fields is null) = (hash is null))
) strict;

create unique index windlass_entities_id on windlass_entities (type, id);
create unique index windlass_entities_seq on windlass_entities (seq);
create index windlass_entities_pending on windlass_entities (no) where state = 1;

-- The vector an entity has in a space, and the content it is of.
create table windlass_vectors (
    entity integer not null,
    space  text not null,
    hash   blob not null,
    vector blob not null,
    primary key (entity, space)
) strict, without rowid;
