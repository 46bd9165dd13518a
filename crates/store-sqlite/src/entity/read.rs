//! Reading entities and their change feed.

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::entity::{IndexState, TypeSpec};
use windlass_core::id::EntityNo;
use windlass_core::store::{ChangedEntity, Changes, EntityRecord, FeedMark};
use windlass_core::{JobId, Time, TypeId};

use super::save::{next_seq, read_fields};
use crate::error::{Answer, Fault};

const COLUMNS: &str =
    "no, type, id, version, fields, state, indexed_version, job_id, error, created_at, updated_at";

pub(super) fn types(connection: &Connection) -> Answer<Vec<(TypeId, TypeSpec)>> {
    let mut statement = connection.prepare_cached("select id, spec from windlass_types order by id")?;
    let rows = statement.query_map([], |row| Ok((TypeId(row.get(0)?), row.get::<_, String>(1)?)))?;
    let mut types = Vec::new();
    for row in rows {
        let (id, text) = row?;
        let spec =
            serde_json::from_str(&text).map_err(|error| Fault::corrupt(format!("type {id}: {error}")))?;
        types.push((id, spec));
    }
    Ok(types)
}

struct Raw {
    record: EntityRecord,
    fields: Option<String>,
    state: i16,
}

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let record = EntityRecord {
        no: EntityNo(row.get(0)?),
        entity_type: TypeId(row.get(1)?),
        id: row.get(2)?,
        version: row.get::<_, i64>(3)?.unsigned_abs(),
        fields: None,
        state: IndexState::Pending,
        indexed_version: row.get::<_, Option<i64>>(6)?.map(i64::unsigned_abs),
        job: row.get::<_, Option<i64>>(7)?.map(JobId),
        error: row.get(8)?,
        created_at: Time(row.get(9)?),
        updated_at: Time(row.get(10)?),
    };
    Ok(Raw { record, fields: row.get(4)?, state: row.get(5)? })
}

fn record(raw: Raw) -> Answer<EntityRecord> {
    let Raw { mut record, fields, state } = raw;
    record.fields = fields.map(|text| read_fields(&text)).transpose()?;
    record.state =
        IndexState::from_code(state).ok_or_else(|| Fault::corrupt(format!("state {state} of an entity")))?;
    Ok(record)
}

pub(super) fn entity(connection: &Connection, entity_type: TypeId, id: &str) -> Answer<Option<EntityRecord>> {
    let sql = format!("select {COLUMNS} from windlass_entities where type = ?1 and id = ?2");
    let found = connection.prepare_cached(&sql)?.query_row((entity_type.0, id), raw).optional()?;
    found.map(record).transpose()
}

pub(super) fn entities(
    connection: &Connection,
    entity_type: TypeId,
    after: &str,
    limit: u32,
) -> Answer<Vec<EntityRecord>> {
    let sql = format!(
        "select {COLUMNS} from windlass_entities where type = ?1 and id > ?2 and state <> 4 order by id limit ?3"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map((entity_type.0, after, limit), raw)?;
    rows.map(|row| record(row?)).collect()
}

pub(super) fn numbered(connection: &Connection, numbers: &[EntityNo]) -> Answer<Vec<EntityRecord>> {
    let sql = format!("select {COLUMNS} from windlass_entities where no = ?1 and state <> 4");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut records = Vec::with_capacity(numbers.len());
    for no in numbers {
        if let Some(found) = statement.query_row([no.0], raw).optional()? {
            records.push(record(found)?);
        }
    }
    Ok(records)
}

/// The position of a follower: `feed/seq`, or `load/end/seq` while it reads the entities that existed when it
/// began.
struct Mark {
    seq: i64,
    /// The end of the feed when the follower began.
    loads_to: Option<i64>,
}

impl Mark {
    fn read(connection: &Connection, mark: &FeedMark) -> Answer<Mark> {
        let unknown = || Fault::corrupt(format!("a feed mark `{}`", mark.0));
        let number = |text: &str| text.parse().map_err(|_| unknown());
        let parts: Vec<&str> = mark.0.split('/').collect();
        match parts.as_slice() {
            [""] => Ok(Mark { seq: 0, loads_to: Some(next_seq(connection)? - 1) }),
            ["load", end, seq] => Ok(Mark { seq: number(seq)?, loads_to: Some(number(end)?) }),
            ["feed", seq] => Ok(Mark { seq: number(seq)?, loads_to: None }),
            _ => Err(unknown()),
        }
    }

    fn at(&self, seq: i64) -> FeedMark {
        FeedMark(match self.loads_to {
            Some(end) if seq < end => format!("load/{end}/{seq}"),
            _ => format!("feed/{seq}"),
        })
    }

    /// A new follower has nothing that an older tombstone could delete. A tombstone made since may delete something
    /// already shown.
    fn skips(&self, seq: i64) -> bool {
        self.loads_to.is_some_and(|end| seq <= end)
    }
}

// Differs from Postgres: with one writer the order of seq is the order of commits.
pub(super) fn changes(connection: &Connection, after: &FeedMark, space: &str, limit: u32) -> Answer<Changes> {
    let mark = Mark::read(connection, after)?;
    let limit = limit.max(1);
    let mut statement = connection.prepare_cached(
        "select e.no, e.type, e.id, e.version, e.seq, e.fields, v.vector, coalesce(v.hash = e.hash, 0)
         from windlass_entities e left join windlass_vectors v on v.entity = e.no and v.space = ?2
         where e.seq > ?1 order by e.seq limit ?3",
    )?;
    let mut last = mark.seq;
    let mut read = 0;
    let mut entities = Vec::new();
    let mut rows = statement.query((mark.seq, space, limit))?;
    while let Some(row) = rows.next()? {
        read += 1;
        last = row.get(4)?;
        let fields: Option<String> = row.get(5)?;
        if fields.is_none() && mark.skips(last) {
            continue;
        }
        entities.push(ChangedEntity {
            no: EntityNo(row.get(0)?),
            entity_type: TypeId(row.get(1)?),
            id: row.get(2)?,
            version: row.get::<_, i64>(3)?.unsigned_abs(),
            fields: fields.map(String::into_bytes),
            vector: row.get(6)?,
            indexed: row.get(7)?,
        });
    }
    Ok(Changes { entities, mark: mark.at(last), more: read == limit })
}

pub(super) fn pending(connection: &Connection, cap: u64) -> Answer<u64> {
    let cap = i64::try_from(cap).unwrap_or(i64::MAX);
    let count: i64 = connection
        .prepare_cached("select count(*) from (select 1 from windlass_entities where state = 1 limit ?1)")?
        .query_row([cap], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
