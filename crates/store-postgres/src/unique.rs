//! Unique keys that a job holds until it has ended.
//!
//! Owns `unique_keys`. A row is the lock as well: of two racing transactions the second waits for the first, and takes
//! the key if that rolls back. The end of the job removes the row (`end`). Never ends a job.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;
use windlass_core::{JobId, StoreError};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::get;

/// In one order, so that two batches wait for each other in one direction only.
const TAKE: &str = "
    insert into windlass.unique_keys (key, job_id)
    select u.key, u.job_id from unnest($1::text[], $2::bigint[]) u (key, job_id) order by u.key
    on conflict (key) do nothing returning key";

const READ: &str = "select key, job_id from windlass.unique_keys where key = any ($1)";
const POINT: &str = "update windlass.unique_keys set job_id = $2 where key = $1";

const OP: &str = "enqueue";

impl PostgresStore {
    /// Takes the keys that are free, each named once, and answers the holders of the others.
    pub(crate) async fn take_unique_keys(
        &self,
        conn: &mut PgConnection,
        mut wanted: Vec<(&str, i64)>,
    ) -> Result<HashMap<String, JobId>, StoreError> {
        let mut holders = HashMap::new();
        while !wanted.is_empty() {
            let (keys, ids): (Vec<&str>, Vec<i64>) = wanted.iter().copied().unzip();
            let take = sqlx::query(self.sql(TAKE)).bind(keys).bind(ids);
            let rows = take.fetch_all(&mut *conn).await.map_err(failed(OP))?;
            let taken: HashSet<String> = rows.iter().map(|row| get(row, "key")).collect::<Result<_, _>>()?;
            wanted.retain(|(key, _)| !taken.contains(*key));
            let keys: Vec<&str> = wanted.iter().map(|(key, _)| *key).collect();
            let read = sqlx::query(self.sql(READ)).bind(keys);
            for row in &read.fetch_all(&mut *conn).await.map_err(failed(OP))? {
                holders.insert(get::<String>(row, "key")?, JobId(get(row, "job_id")?));
            }
            // A key that was freed between the two statements is tried again.
            wanted.retain(|(key, _)| !holders.contains_key(*key));
        }
        Ok(holders)
    }

    /// Another job took the place of the holder.
    pub(crate) async fn point_unique_key(
        &self,
        conn: &mut PgConnection,
        key: &str,
        job: i64,
    ) -> Result<(), StoreError> {
        let query = sqlx::query(self.sql(POINT)).bind(key).bind(job);
        query.execute(conn).await.map_err(failed(OP))?;
        Ok(())
    }
}
