//! What the end of a box does to its entity, decided by `core::entity::why_failed` and written in the same
//! transaction.
//!
//! Differs from SQLite, where there is one writer: a transaction that ends or retries boxes first locks the entities
//! that wait for them, by type and id, and then the jobs. An entity waits for its newest box and never again for an
//! older one, so an entity that is not found here cannot wait for the box later.

use std::collections::HashMap;

use sqlx::PgConnection;
use windlass_core::StoreError;

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{get, text_in};

/// The limit forces an index lookup per job, whatever the planner assumes about the array's length.
const LOCK: &str = "
    with k as materialized (
        select b.job, t.id as type, j.entity_id as id
        from unnest($1::bigint[]) b (job)
        cross join lateral (
            select entity_type, entity_id from windlass.jobs where id = b.job and entity_type is not null limit 1) j
        join windlass.types t on t.name = j.entity_type
        order by t.id, j.entity_id collate \"C\")
    select k.job, e.no
    from k
    cross join lateral (
        select no from windlass.entities where type = k.type and id = k.id and job_id = k.job for update) e";

/// `waiting` keeps the strategy of the box, which applies again when the box is retried.
const FAILED: &str = "
    update windlass.entities e set state = 3, error = u.why
    from unnest($1::bigint[], $2::text[]) u (no, why)
    where e.no = u.no and e.state = 1";

const PENDING: &str =
    "update windlass.entities set state = 1, error = null where no = any ($1) and state = 3";

const OP: &str = "update the entities of boxes";

/// Locked entities, by the box that each waits for or waited for last.
#[derive(Default)]
pub(crate) struct Waiting {
    entities: HashMap<i64, i64>,
}

impl PostgresStore {
    /// For any jobs; most are not boxes.
    pub(crate) async fn lock_waiting(
        &self,
        conn: &mut PgConnection,
        jobs: &[i64],
    ) -> Result<Waiting, StoreError> {
        if jobs.is_empty() {
            return Ok(Waiting::default());
        }
        let rows = sqlx::query(self.sql(LOCK)).bind(jobs).fetch_all(conn).await.map_err(failed(OP))?;
        let pair = |row| Ok((get(row, "job")?, get(row, "no")?));
        Ok(Waiting { entities: rows.iter().map(pair).collect::<Result<_, StoreError>>()? })
    }

    /// Jobs that ended, each with the reason why its entity failed.
    pub(crate) async fn fail_waiting(
        &self,
        conn: &mut PgConnection,
        waiting: &Waiting,
        ended: impl Iterator<Item = (i64, String)>,
    ) -> Result<(), StoreError> {
        let waiting = |(job, why): (i64, String)| Some((*waiting.entities.get(&job)?, why));
        self.fail_entities(conn, ended.filter_map(waiting)).await
    }

    /// The caller has locked the entities.
    pub(super) async fn fail_entities(
        &self,
        conn: &mut PgConnection,
        entities: impl Iterator<Item = (i64, String)>,
    ) -> Result<(), StoreError> {
        let (numbers, whys): (Vec<i64>, Vec<String>) =
            entities.map(|(no, why)| (no, text_in(&why).into_owned())).unzip();
        if !numbers.is_empty() {
            let query = sqlx::query(self.sql(FAILED)).bind(numbers).bind(whys);
            query.execute(conn).await.map_err(failed(OP))?;
        }
        Ok(())
    }

    /// Jobs that were retried.
    pub(crate) async fn wait_again(
        &self,
        conn: &mut PgConnection,
        waiting: &Waiting,
        replayed: &[i64],
    ) -> Result<(), StoreError> {
        let numbers: Vec<i64> =
            replayed.iter().filter_map(|job| waiting.entities.get(job).copied()).collect();
        if !numbers.is_empty() {
            let query = sqlx::query(self.sql(PENDING)).bind(numbers);
            query.execute(conn).await.map_err(failed(OP))?;
        }
        Ok(())
    }
}
