//! Windows of unique keys: for this long after a job was accepted, another job with the key is a duplicate.
//!
//! Owns `unique_windows`. Only jobs that ask for a window read or write it. A row is the lock as well: of two racing
//! transactions the second waits for the first, and takes the key if that rolls back. Never ends a job.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;
use windlass_core::{JobId, NewJob, StoreError, Unique};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{delay_in, get};

/// Each key once, in one order, so that two batches wait for each other in one direction only. A row whose window lasts
/// is locked and stays as it is.
const TAKE: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
    insert into windlass.unique_windows as w (key, job_id, until)
    select u.key, u.job_id, n.now + u.span * interval '1 microsecond'
    from n, unnest($2::text[], $3::bigint[], $4::bigint[]) u (key, job_id, span) order by u.key
    on conflict (key) do update set job_id = excluded.job_id, until = excluded.until
        where w.until <= statement_timestamp() + $1::bigint * interval '1 microsecond'
    returning w.key";

const READ: &str = "select key, job_id from windlass.unique_windows where key = any ($1)";

const POINT: &str = "update windlass.unique_windows set job_id = $2 where key = $1";

/// The job that opened the window was not accepted. Until it starts, the existing job keeps the key without a window.
const CLOSE: &str = "
    update windlass.unique_windows
    set job_id = $4, until = statement_timestamp() + $1::bigint * interval '1 microsecond'
    where key = $2 and job_id = $3";

const OP: &str = "enqueue";

/// A job, and the id it gets if it is written.
pub(crate) type Wanted<'a> = (&'a NewJob, i64);

impl PostgresStore {
    /// Opens the windows of jobs that ask for one, each key at most once. Returns the keys whose window lasts, with the
    /// job of each window.
    pub(crate) async fn take_windows(
        &self,
        conn: &mut PgConnection,
        jobs: &[Wanted<'_>],
    ) -> Result<HashMap<String, JobId>, StoreError> {
        let wanted = |(job, id): &Wanted<'_>| {
            let Unique { key, window, .. } = job.unique.as_ref()?;
            Some((key.clone(), (*id, delay_in((*window)?))))
        };
        let (keys, rest): (Vec<String>, Vec<(i64, i64)>) = jobs.iter().filter_map(wanted).unzip();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let (ids, spans): (Vec<i64>, Vec<i64>) = rest.into_iter().unzip();
        let take = sqlx::query(self.sql(TAKE)).bind(self.offset()).bind(&keys).bind(ids).bind(spans);
        let rows = take.fetch_all(&mut *conn).await.map_err(failed(OP))?;
        let taken: HashSet<String> = rows.iter().map(|row| get(row, "key")).collect::<Result<_, _>>()?;
        let lasting: Vec<String> = keys.into_iter().filter(|key| !taken.contains(key)).collect();
        if lasting.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = sqlx::query(self.sql(READ)).bind(lasting).fetch_all(conn).await.map_err(failed(OP))?;
        rows.iter().map(|row| Ok((get(row, "key")?, JobId(get(row, "job_id")?)))).collect()
    }

    /// Another job took the place of the one that opened the window.
    pub(crate) async fn point_window(
        &self,
        conn: &mut PgConnection,
        key: &str,
        job: i64,
    ) -> Result<(), StoreError> {
        let query = sqlx::query(self.sql(POINT)).bind(key).bind(job);
        query.execute(conn).await.map_err(failed(OP))?;
        Ok(())
    }

    pub(crate) async fn close_window(
        &self,
        conn: &mut PgConnection,
        key: &str,
        opened_by: i64,
        existing: JobId,
    ) -> Result<(), StoreError> {
        let query =
            sqlx::query(self.sql(CLOSE)).bind(self.offset()).bind(key).bind(opened_by).bind(existing.0);
        query.execute(conn).await.map_err(failed(OP))?;
        Ok(())
    }
}
