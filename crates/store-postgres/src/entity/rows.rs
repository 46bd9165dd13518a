//! The rows of `entities`: locked, inserted and updated, all with arrays.

use std::collections::HashMap;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};
use windlass_core::StoreError;
use windlass_core::entity::{ContentHash, Current, Fields, IndexState, Strategy};

use super::batch::{Batch, Entity, Row};
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{at, big_in, count, get, sparse};

/// Differs from SQLite, where there is one writer: rows are locked in the order of the arrays, with one index lookup
/// each. The lock inside the lateral query forces both, whatever the planner assumes about the arrays' length.
const LOCK: &str = "
    select k.n, e.no, e.version, e.fields, e.hash, e.state, e.waiting, e.indexed_version
    from unnest($1::int[], $2::text[]) with ordinality k (type, id, n)
    cross join lateral (
        select no, version, fields::text as fields, hash, state, waiting, indexed_version
        from windlass.entities where type = k.type and id = k.id for update) e";

/// The columns that a write sets, then those that identify the row.
macro_rules! rows {
    ($keys:literal, $names:literal) => {
        concat!(
            "unnest($2::bigint[], $3::text[], $4::bytea[], $5::smallint[], $6::smallint[], $7::bigint[], $8::bigint[], ",
            $keys,
            ") with ordinality u (version, fields, hash, state, waiting, indexed_version, job_id, ",
            $names,
            ", n)"
        )
    };
}

/// Inserts in the order of the arrays, which is that of the locks.
const INSERT: &str = concat!(
    "with i as (
         insert into windlass.entities (type, id, version, changed, fields, hash, state, waiting, indexed_version,
                                        job_id, created_at, updated_at)
         select u.type, u.id, u.version, pg_current_xact_id(), u.fields::json, u.hash, u.state, u.waiting,
                u.indexed_version, u.job_id, t.now, t.now
         from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) t, ",
    rows!("$9::int[], $10::text[]", "type, id"),
    "    order by u.n
         on conflict (type, id) do nothing
         returning no, type, id)
     select array_agg(no), array_agg(type), array_agg(id) from i"
);

const UPDATE: &str = concat!(
    "update windlass.entities e
     set version = u.version, changed = pg_current_xact_id(), fields = u.fields::json, hash = u.hash, state = u.state,
         waiting = u.waiting, indexed_version = u.indexed_version, job_id = coalesce(u.job_id, e.job_id), error = null,
         updated_at = statement_timestamp() + $1::bigint * interval '1 microsecond'
     from ",
    rows!("$9::bigint[]", "no"),
    " where e.no = u.no"
);

const OP: &str = "save entities";

impl PostgresStore {
    pub(super) async fn lock_entities(
        &self,
        conn: &mut PgConnection,
        batch: &Batch<'_>,
        open: &[usize],
    ) -> Result<HashMap<usize, Row>, StoreError> {
        let keys = || open.iter().map(|n| batch.entities[*n].write);
        let rows = sqlx::query(self.sql(LOCK))
            .bind(keys().map(|key| key.type_id.0).collect::<Vec<_>>())
            .bind(keys().map(|key| key.id.as_str()).collect::<Vec<_>>())
            .fetch_all(conn)
            .await
            .map_err(failed(OP))?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let n: i64 = get(row, "n")?;
            let place = usize::try_from(n - 1).ok().and_then(|n| open.get(n));
            let place = place.ok_or_else(|| StoreError::Corrupt {
                what: format!("the lock statement returned the unknown row {n}"),
            })?;
            found.insert(*place, read_row(row)?);
        }
        Ok(found)
    }

    /// Inserts the entities without a row. Returns those that another transaction inserted meanwhile.
    pub(super) async fn insert_entities(
        &self,
        conn: &mut PgConnection,
        batch: &mut Batch<'_>,
        open: &[usize],
    ) -> Result<Vec<usize>, StoreError> {
        let mut new: HashMap<(i32, &str), usize> = HashMap::new();
        let mut entities = Vec::new();
        for n in open {
            let entity = &batch.entities[*n];
            if entity.old_version.is_none() && entity.is_changed() {
                let write = entity.write;
                new.insert((write.type_id.0, &write.id), *n);
                entities.push(entity);
            }
        }
        if entities.is_empty() {
            return Ok(Vec::new());
        }
        let row = self
            .bind_rows(INSERT, &entities)?
            .bind(entities.iter().map(|e| e.write.type_id.0).collect::<Vec<_>>())
            .bind(entities.iter().map(|e| e.write.id.as_str()).collect::<Vec<_>>())
            .fetch_one(conn)
            .await
            .map_err(failed(OP))?;
        let numbers = at::<Option<Vec<i64>>>(&row, 0)?.unwrap_or_default();
        let types = at::<Option<Vec<i32>>>(&row, 1)?.unwrap_or_default();
        let ids = at::<Option<Vec<String>>>(&row, 2)?.unwrap_or_default();
        for ((no, entity_type), id) in numbers.into_iter().zip(types).zip(&ids) {
            let n = new.remove(&(entity_type, id.as_str()));
            let n = n.ok_or_else(|| StoreError::Corrupt {
                what: format!("the insert returned the unknown entity {no}"),
            })?;
            batch.entities[n].no = Some(no);
        }
        let mut lost: Vec<usize> = new.into_values().collect();
        lost.sort_unstable();
        Ok(lost)
    }

    pub(super) async fn update_entities(
        &self,
        conn: &mut PgConnection,
        batch: &Batch<'_>,
    ) -> Result<(), StoreError> {
        let old = batch.entities.iter().filter(|e| e.old_version.is_some() && e.is_changed());
        let old: Vec<&Entity<'_>> = old.collect();
        if old.is_empty() {
            return Ok(());
        }
        let query = self.bind_rows(UPDATE, &old)?.bind(old.iter().map(|e| e.no).collect::<Vec<_>>());
        query.execute(conn).await.map_err(failed(OP))?;
        Ok(())
    }

    fn bind_rows<'q>(
        &self,
        statement: &'static str,
        entities: &[&'q Entity<'_>],
    ) -> Result<Query<'q, Postgres, PgArguments>, StoreError> {
        let now = || entities.iter().filter_map(|e| e.now.as_ref());
        let fields = now().map(|row| row.fields.as_ref().map(serde_json::to_string).transpose());
        let fields = fields.collect::<Result<Vec<Option<String>>, _>>();
        let fields = fields.map_err(|e| StoreError::Corrupt { what: format!("an entity's fields: {e}") })?;
        Ok(sqlx::query(self.sql(statement))
            .bind(self.offset())
            .bind(now().map(|row| big_in(row.version)).collect::<Vec<_>>())
            .bind(sparse(fields))
            .bind(sparse(now().map(|row| row.hash.as_ref().map(ContentHash::as_slice)).collect()))
            .bind(now().map(|row| row.state.code()).collect::<Vec<_>>())
            .bind(sparse(now().map(|row| row.waiting.map(Strategy::code)).collect()))
            .bind(sparse(entities.iter().map(|e| e.indexed_version.map(big_in)).collect()))
            .bind(sparse(entities.iter().map(|e| e.job.map(|job| job.0)).collect())))
    }
}

fn read_row(row: &PgRow) -> Result<Row, StoreError> {
    let fields: Option<&str> = get(row, "fields")?;
    let state: i16 = get(row, "state")?;
    let waiting: Option<i16> = get(row, "waiting")?;
    let current = Current {
        version: count(row, "version")?,
        fields: fields.map(read_fields).transpose()?,
        hash: read_hash(row)?,
        state: read_state(state)?,
        waiting: waiting.and_then(Strategy::from_code),
    };
    let indexed_version: Option<i64> = get(row, "indexed_version")?;
    Ok(Row { no: get(row, "no")?, current, indexed_version: indexed_version.map(i64::unsigned_abs) })
}

pub(super) fn read_hash(row: &PgRow) -> Result<Option<ContentHash>, StoreError> {
    let bytes: Option<&[u8]> = get(row, "hash")?;
    let hash = bytes.map(ContentHash::try_from).transpose();
    hash.map_err(|e| StoreError::Corrupt { what: format!("an entity's hash: {e}") })
}

pub(super) fn read_state(state: i16) -> Result<IndexState, StoreError> {
    let known = IndexState::from_code(state);
    known.ok_or_else(|| StoreError::Corrupt { what: format!("state {state} of an entity") })
}

pub(super) fn read_fields(text: &str) -> Result<Fields, StoreError> {
    serde_json::from_str(text).map_err(|e| StoreError::Corrupt { what: format!("an entity's fields: {e}") })
}
