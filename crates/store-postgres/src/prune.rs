//! Retention: whole days where possible, else rows in short transactions.
//!
//! Owns the end of jobs nobody needs any more. A day's two partitions are dropped when all in them is finished and
//! old enough; otherwise expired rows go some thousands at a time. Never removes a job that waits, runs, or is a dead
//! letter still kept.

use sqlx::PgConnection;
use windlass_core::store::{Prune, PruneWhat};
use windlass_core::{JobId, StoreError, Time};

use crate::PostgresStore;
use crate::error::{code, failed, translate};
use crate::row::{PgTime, count, get};

/// $1 cutoff, $2 ids above, $3 ids below, $4 rows. No index on `finished_at`: a job older than the cutoff has an id
/// below it, so the scan by id reads little else.
macro_rules! expired {
    ($states:literal) => {
        concat!(
            "with v as materialized (
                 select id from windlass.finished
                 where state in ",
            $states,
            " and finished_at < $1 and id > $2 and id < $3
                 order by id limit $4),
             d as (delete from windlass.finished where id in (select id from v) returning id),
             j as (delete from windlass.jobs where id in (select id from d)),
             a as (delete from windlass.attempts where id in (select id from d)),
             l as (delete from windlass.logs where job_id in (select id from d)),
             p as (delete from windlass.progress where job_id in (select id from d)),
             k as (delete from windlass.cancels where job_id in (select id from d))
             select (select count(*) from d) as gone, (select max(id) from v) as last"
        )
    };
}

const DELETE_FINISHED: &str = expired!("(3, 6, 7)");
const DELETE_DEAD: &str = expired!("(4, 5)");
const COUNT_FINISHED: &str = "
    select count(*) from windlass.finished where state in (3, 6, 7) and finished_at < $1 and id < $2";
const COUNT_DEAD: &str = "
    select count(*) from windlass.finished where state in (4, 5) and finished_at < $1 and id < $2";

const DELETE_KEYS: &str = "
    with v as materialized (select key from windlass.idempotency where created_at < $1 limit $2),
         d as (delete from windlass.idempotency i using v where i.key = v.key and i.created_at < $1 returning i.key)
    select count(*) as gone from d";
const COUNT_KEYS: &str = "select count(*) from windlass.idempotency where created_at < $1";

const DELETE_ROLLUPS: &str = "
    with d as (delete from windlass.rollups where ctid = any (array(
                   select ctid from windlass.rollups where minute < $1 order by minute limit $2)) returning 1)
    select count(*) as gone from d";
const COUNT_ROLLUPS: &str = "select count(*) from windlass.rollups where minute < $1";

/// Day partitions that end before $1, with their bounds, oldest first.
const OLD_DAYS: &str = r"
    select substring(c.relname from 11) as day, b.lo, b.hi
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (
        select m[1]::bigint as lo, m[2]::bigint as hi
        from regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(-?\d+)''\) TO \(''(-?\d+)''\)') m) b
    where i.inhparent = to_regclass('windlass.finished') and b.hi <= $1
      and b.hi <= (floor(extract(epoch from clock_timestamp()) * 1000)::bigint << 22)
    order by b.lo";

/// Dropping a partition locks its parent; better no drop than a queue that stands still behind a long reader.
const LOCK_BOTH: &str = "
    set local lock_timeout = '200ms';
    lock table windlass.jobs, windlass.finished in access exclusive mode";

const ROWS: i64 = 5_000;
const OP: &str = "prune";

impl PostgresStore {
    pub(crate) async fn remove_old(&self, prune: &Prune) -> Result<u64, StoreError> {
        let cutoff = self.clock().await?.minus(prune.older_than);
        // Ids carry the real clock, so under a test offset they bound nothing.
        let below = if self.offset() == 0 { JobId::floor(cutoff) } else { JobId(i64::MAX) };
        match (prune.what, prune.dry_run) {
            (PruneWhat::Finished, true) => self.count_jobs(COUNT_FINISHED, cutoff, below).await,
            (PruneWhat::DeadLetters, true) => self.count_jobs(COUNT_DEAD, cutoff, below).await,
            (PruneWhat::Idempotency, true) => self.count_old(COUNT_KEYS, cutoff).await,
            (PruneWhat::Rollups, true) => self.count_old(COUNT_ROLLUPS, cutoff).await,
            (PruneWhat::Finished, false) => {
                let dropped = self.drop_days(cutoff, below).await?;
                let deleted = self.delete_jobs(DELETE_FINISHED, cutoff, below).await?;
                self.ensure_days().await?;
                Ok(dropped + deleted)
            }
            (PruneWhat::DeadLetters, false) => self.delete_jobs(DELETE_DEAD, cutoff, below).await,
            (PruneWhat::Idempotency, false) => self.delete_old(DELETE_KEYS, cutoff).await,
            (PruneWhat::Rollups, false) => self.delete_old(DELETE_ROLLUPS, cutoff).await,
        }
    }

    async fn count_jobs(&self, sql: &'static str, cutoff: Time, below: JobId) -> Result<u64, StoreError> {
        let query = sqlx::query(self.sql(sql)).bind(PgTime(cutoff)).bind(below.0);
        count(&query.fetch_one(&self.pool).await.map_err(failed(OP))?, "count")
    }

    async fn count_old(&self, sql: &'static str, cutoff: Time) -> Result<u64, StoreError> {
        let query = sqlx::query(self.sql(sql)).bind(PgTime(cutoff));
        count(&query.fetch_one(&self.pool).await.map_err(failed(OP))?, "count")
    }

    async fn delete_old(&self, sql: &'static str, cutoff: Time) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let query = sqlx::query(self.sql(sql)).bind(PgTime(cutoff)).bind(ROWS);
            let some = count(&query.fetch_one(&self.pool).await.map_err(failed(OP))?, "gone")?;
            gone += some;
            if some == 0 {
                return Ok(gone);
            }
        }
    }

    /// In id order from where the last batch ended, so that rows that stay are passed once.
    async fn delete_jobs(&self, sql: &'static str, cutoff: Time, below: JobId) -> Result<u64, StoreError> {
        let (mut gone, mut above) = (0, i64::MIN);
        loop {
            let row = sqlx::query(self.sql(sql))
                .bind(PgTime(cutoff))
                .bind(above)
                .bind(below.0)
                .bind(ROWS)
                .fetch_one(&self.pool)
                .await
                .map_err(failed(OP))?;
            gone += count(&row, "gone")?;
            match get::<Option<i64>>(&row, "last")? {
                Some(last) => above = last,
                None => return Ok(gone),
            }
        }
    }

    /// Drops what can be dropped now; a day that is in use is left for its rows to be deleted.
    async fn drop_days(&self, cutoff: Time, below: JobId) -> Result<u64, StoreError> {
        let days =
            sqlx::query(self.sql(OLD_DAYS)).bind(below.0).fetch_all(&self.pool).await.map_err(failed(OP))?;
        let mut gone = 0;
        for row in days {
            let (day, lo, hi): (String, i64, i64) = (get(&row, "day")?, get(&row, "lo")?, get(&row, "hi")?);
            if !day.chars().all(|c| c.is_ascii_digit()) {
                continue;
            }
            match self.drop_day(&day, lo, hi, cutoff).await {
                Ok(rows) => gone += rows,
                // Another process dropped it, or somebody reads it and the lock was not to be had.
                Err(error) if matches!(code(&error).as_str(), "55P03" | "40P01" | "42P01") => {
                    tracing::debug!(%error, day, "the day's partitions were not dropped");
                }
                Err(error) => return Err(translate(OP, error)),
            }
        }
        Ok(gone)
    }

    async fn drop_day(&self, day: &str, lo: i64, hi: i64, cutoff: Time) -> Result<u64, sqlx::Error> {
        let mut tx = self.pool.begin().await?;
        if self.spent(&mut tx, day, cutoff).await?.is_none() {
            return Ok(0);
        }
        sqlx::raw_sql(self.sql(LOCK_BOTH)).execute(&mut *tx).await?;
        // Once more under the lock: a replay may have come in between.
        let Some(rows) = self.spent(&mut tx, day, cutoff).await? else { return Ok(0) };
        let script = format!(
            "delete from windlass.attempts where id >= {lo} and id < {hi};
             delete from windlass.logs where job_id >= {lo} and job_id < {hi};
             delete from windlass.progress where job_id >= {lo} and job_id < {hi};
             delete from windlass.cancels where job_id >= {lo} and job_id < {hi};
             drop table windlass.finished_d{day};
             drop table windlass.jobs_d{day}"
        );
        sqlx::raw_sql(self.dynamic(&script)).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(rows)
    }

    /// How many jobs the day holds, when all are finished, old enough and none is a dead letter.
    async fn spent(
        &self,
        conn: &mut PgConnection,
        day: &str,
        cutoff: Time,
    ) -> Result<Option<u64>, sqlx::Error> {
        let sql = format!(
            "select (select count(*) from windlass.finished_d{day}) as finished,
                    not exists (select from windlass.finished_d{day} where finished_at >= $1 or state in (4, 5))
                    and not exists (select from windlass.jobs_d{day} j
                                    where not exists (select from windlass.finished_d{day} f where f.id = j.id))
                    as spent"
        );
        let row = sqlx::query(self.dynamic(&sql)).bind(PgTime(cutoff)).fetch_one(conn).await?;
        let spent: bool = sqlx::Row::try_get(&row, "spent")?;
        let finished: i64 = sqlx::Row::try_get(&row, "finished")?;
        Ok(spent.then(|| u64::try_from(finished).unwrap_or(0)))
    }
}
