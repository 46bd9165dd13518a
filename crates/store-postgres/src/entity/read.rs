//! Reading entities.

use sqlx::postgres::PgRow;
use windlass_core::entity::TypeSpec;
use windlass_core::id::EntityNo;
use windlass_core::store::EntityRecord;
use windlass_core::{JobId, StoreError, TypeId};

use super::rows::{read_fields, read_state};
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{big_in, count, get, time};

const TYPES: &str = "select id, spec::text as spec from windlass.types order by id";

macro_rules! select {
    ($which:literal) => {
        concat!(
            "select no, type, id, version, fields::text as fields, state, indexed_version, job_id, error, created_at,
                    updated_at
             from windlass.entities where ",
            $which
        )
    };
}

const ONE: &str = select!("type = $1 and id = $2");
const LIST: &str = select!("type = $1 and id > $2 and state <> 4 order by id limit $3");
const NUMBERED: &str = select!("no = any ($1) and state <> 4");

const PENDING: &str =
    "select count(*) as pending from (select from windlass.entities where state = 1 limit $1) waiting";

impl PostgresStore {
    pub(super) async fn list_types(&self) -> Result<Vec<(TypeId, TypeSpec)>, StoreError> {
        let rows = sqlx::query(self.sql(TYPES)).fetch_all(&self.pool).await.map_err(failed("list types"))?;
        rows.iter()
            .map(|row| {
                let id: i32 = get(row, "id")?;
                let spec = serde_json::from_str(get(row, "spec")?);
                let spec = spec.map_err(|e| StoreError::Corrupt { what: format!("type {id}: {e}") })?;
                Ok((TypeId(id), spec))
            })
            .collect()
    }

    pub(super) async fn one_entity(
        &self,
        entity_type: TypeId,
        id: &str,
    ) -> Result<Option<EntityRecord>, StoreError> {
        // No id contains NUL, and Postgres would reject the parameter.
        if id.contains('\0') {
            return Ok(None);
        }
        let query = sqlx::query(self.sql(ONE)).bind(entity_type.0).bind(id);
        let found = query.fetch_optional(&self.pool).await.map_err(failed("read an entity"))?;
        found.as_ref().map(record).transpose()
    }

    pub(super) async fn list_entities(
        &self,
        entity_type: TypeId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<EntityRecord>, StoreError> {
        // No valid id lies between a text and the same text followed by NUL.
        let after = after.and_then(|after| after.split('\0').next()).unwrap_or("");
        let query = sqlx::query(self.sql(LIST)).bind(entity_type.0).bind(after).bind(i64::from(limit));
        let rows = query.fetch_all(&self.pool).await.map_err(failed("list entities"))?;
        rows.iter().map(record).collect()
    }

    pub(super) async fn numbered(&self, numbers: &[EntityNo]) -> Result<Vec<EntityRecord>, StoreError> {
        let query = sqlx::query(self.sql(NUMBERED)).bind(numbers.iter().map(|no| no.0).collect::<Vec<_>>());
        let rows = query.fetch_all(&self.pool).await.map_err(failed("read entities"))?;
        rows.iter().map(record).collect()
    }

    pub(super) async fn count_pending(&self, cap: u64) -> Result<u64, StoreError> {
        let query = sqlx::query(self.sql(PENDING)).bind(big_in(cap));
        let row = query.fetch_one(&self.pool).await.map_err(failed("count pending entities"))?;
        count(&row, "pending")
    }
}

fn record(row: &PgRow) -> Result<EntityRecord, StoreError> {
    let fields: Option<&str> = get(row, "fields")?;
    let indexed_version: Option<i64> = get(row, "indexed_version")?;
    Ok(EntityRecord {
        no: EntityNo(get(row, "no")?),
        entity_type: TypeId(get(row, "type")?),
        id: get(row, "id")?,
        version: count(row, "version")?,
        fields: fields.map(read_fields).transpose()?,
        state: read_state(get(row, "state")?)?,
        indexed_version: indexed_version.map(i64::unsigned_abs),
        job: get::<Option<i64>>(row, "job_id")?.map(JobId),
        error: get(row, "error")?,
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
    })
}
