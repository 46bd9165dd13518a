//! Retention: whole days where possible, otherwise rows in short transactions.
//!
//! Owns the removal of expired jobs. The two partitions of a day are dropped when all their jobs are finished and old
//! enough. Otherwise expired rows are deleted a few thousand at a time. Never removes a job that is waiting, running,
//! or a dead letter that is still kept.

use sqlx::PgConnection;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::store::{Prune, PruneWhat};
use windlass_core::{JobId, StoreError, Time};

use crate::PostgresStore;
use crate::error::{code, failed, translate};
use crate::row::{PgTime, count, get};

/// $1 cutoff, $2 ids above, $3 ids below, $4 rows. No index on `finished_at` is needed: a job older than the cutoff
/// has an id below it, so the scan by id reads little else.
macro_rules! expired {
    ($states:literal) => {
        concat!(
            "with v as materialized (
                 select id from windlass.finished
                 where state in ",
            $states,
            " and finished_at < $1 and id > $2 and id < $3
                   and not exists (
                       select from windlass.workflow_jobs m join windlass.workflows w on w.id = m.workflow
                       where m.job_id = finished.id and w.ended_at is null)
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

const DELETE_FINISHED: &str = expired!("({completed}, {cancelled}, {superseded})");
const DELETE_DEAD: &str = expired!("({failed}, {dead_letter})");
const COUNT_FINISHED: &str = "
    select count(*) from windlass.finished where state in ({completed}, {cancelled}, {superseded}) and finished_at < $1 and id < $2";
const COUNT_DEAD: &str = "
    select count(*) from windlass.finished where state in ({failed}, {dead_letter}) and finished_at < $1 and id < $2";

const DELETE_KEYS: &str = "
    with v as materialized (select key from windlass.idempotency where created_at < $1 limit $2),
         d as (delete from windlass.idempotency i using v where i.key = v.key and i.created_at < $1 returning i.key)
    select count(*) as gone from d";
const COUNT_KEYS: &str = "select count(*) from windlass.idempotency where created_at < $1";

const DELETE_WINDOWS: &str = "
    with v as materialized (select key from windlass.unique_windows where until <= $1 limit $2),
         d as (delete from windlass.unique_windows w using v where w.key = v.key and w.until <= $1 returning w.key)
    select count(*) as gone from d";
const COUNT_WINDOWS: &str = "select count(*) from windlass.unique_windows where until <= $1";

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

/// Dropping a partition locks its parent. It is better not to drop it than to block the queue behind a long reader.
const SHORT_LOCK_TIMEOUT: &str = "set local lock_timeout = '200ms'";
/// `only` leaves out the partitions: a vacuum of another day should not prevent the drop.
const LOCK_BOTH: &str = "lock table only windlass.jobs, only windlass.finished in access exclusive mode";

/// Failed workflows are kept as long as dead letters.
macro_rules! old_workflows {
    ($states:literal) => {
        concat!(
            "with d as (
                 delete from windlass.workflows where id = any (array(
                     select id from windlass.workflows where ended_at < $1 and state in ",
            $states,
            " limit $2)) returning id),
             m as (delete from windlass.workflow_jobs where workflow in (select id from d))
             select count(*) as gone from d"
        )
    };
}

const DELETE_WORKFLOWS: &str = old_workflows!("(1, 3, 5)");
const DELETE_FAILED_WORKFLOWS: &str = old_workflows!("(2)");

/// Whether a job with an id from $1 to below $2 is waiting or running, or needed by a workflow that has not ended.
const LIVE: &str = "
    select exists (
               select from windlass.workflow_jobs m join windlass.workflows w on w.id = m.workflow
               where m.job_id >= $1 and m.job_id < $2 and w.ended_at is null)
        or exists (select from windlass.ready where id >= $1 and id < $2)
        or exists (select from windlass.claims c cross join unnest(c.ids) i (id) where i.id >= $1 and i.id < $2)";

const ROWS: i64 = 5_000;
const OP: &str = "prune";

impl PostgresStore {
    pub(crate) async fn do_prune(&self, prune: &Prune, actor: Option<&Actor>) -> Result<u64, StoreError> {
        let run = Run { prune, actor };
        let cutoff = self.do_now().await?.minus(prune.older_than);
        // Ids contain the real time, so under a test's clock offset they bound nothing.
        let below = if self.offset() == 0 { JobId::floor(cutoff) } else { JobId(i64::MAX) };
        match (prune.what, prune.dry_run) {
            (PruneWhat::Finished, true) => self.count_jobs(COUNT_FINISHED, cutoff, below).await,
            (PruneWhat::DeadLetters, true) => self.count_jobs(COUNT_DEAD, cutoff, below).await,
            (PruneWhat::Idempotency, true) => self.count_old(COUNT_KEYS, cutoff).await,
            (PruneWhat::Windows, true) => self.count_old(COUNT_WINDOWS, cutoff).await,
            (PruneWhat::Rollups, true) => self.count_old(COUNT_ROLLUPS, cutoff).await,
            (PruneWhat::Finished, false) => {
                // Comes first: without a partition new jobs collect in the default one.
                self.ensure_days().await?;
                let dropped = self.drop_days(cutoff, below).await?;
                let deleted = self.delete_jobs(DELETE_FINISHED, cutoff, below).await?;
                let gone = dropped + deleted;
                self.delete_old(DELETE_WORKFLOWS, cutoff, run, Some(gone)).await?;
                Ok(gone)
            }
            (PruneWhat::DeadLetters, false) => {
                let deleted = self.delete_jobs(DELETE_DEAD, cutoff, below).await?;
                self.delete_old(DELETE_FAILED_WORKFLOWS, cutoff, run, Some(deleted)).await?;
                Ok(deleted)
            }
            (PruneWhat::Idempotency, false) => self.delete_old(DELETE_KEYS, cutoff, run, None).await,
            (PruneWhat::Windows, false) => self.delete_old(DELETE_WINDOWS, cutoff, run, None).await,
            (PruneWhat::Rollups, false) => self.delete_old(DELETE_ROLLUPS, cutoff, run, None).await,
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

    /// Ends with a transaction that finds nothing more and writes the audit record of the whole run: `rows` removed,
    /// or the number removed here.
    async fn delete_old(
        &self,
        sql: &'static str,
        cutoff: Time,
        run: Run<'_>,
        rows: Option<u64>,
    ) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let mut tx = self.pool.begin().await.map_err(failed(OP))?;
            let query = sqlx::query(self.sql(sql)).bind(PgTime(cutoff)).bind(ROWS);
            let some = count(&query.fetch_one(&mut *tx).await.map_err(failed(OP))?, "gone")?;
            gone += some;
            if some == 0 {
                let note = NewAudit::cleanup(run.prune, rows.unwrap_or(gone));
                self.note(&mut tx, run.actor, note.as_ref()).await?;
            }
            tx.commit().await.map_err(failed(OP))?;
            if some == 0 {
                return Ok(gone);
            }
        }
    }

    /// Continues in id order after the last batch, so that rows that stay are scanned once.
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

    /// Drops the days that can be dropped now. The rows of other days are deleted.
    async fn drop_days(&self, cutoff: Time, below: JobId) -> Result<u64, StoreError> {
        let days =
            sqlx::query(self.sql(OLD_DAYS)).bind(below.0).fetch_all(&self.pool).await.map_err(failed(OP))?;
        let mut gone = 0;
        for row in days {
            let name: String = get(&row, "day")?;
            if !name.chars().all(|c| c.is_ascii_digit()) {
                continue;
            }
            let day = Day { name, lo: get(&row, "lo")?, hi: get(&row, "hi")? };
            match self.drop_day(&day, cutoff).await {
                Ok(rows) => gone += rows,
                // Another process dropped it, or it is in use and the lock timed out.
                Err(error) if matches!(code(&error).as_str(), "55P03" | "40P01" | "42P01") => {
                    tracing::debug!(%error, day = day.name, "the day's partitions were not dropped");
                }
                // For example, a day too large for the statement timeout: its rows are deleted instead.
                Err(error) if error.as_database_error().is_some() => {
                    tracing::warn!(%error, day = day.name, "the day's partitions were not dropped");
                }
                Err(error) => return Err(translate(OP, error)),
            }
        }
        Ok(gone)
    }

    /// Everything slow comes before the lock on the parents, which blocks claims and enqueues.
    async fn drop_day(&self, day: &Day, cutoff: Time) -> Result<u64, sqlx::Error> {
        let mut tx = self.pool.begin().await?;
        sqlx::raw_sql(SHORT_LOCK_TIMEOUT).execute(&mut *tx).await?;
        if day.is_live(self, &mut tx).await? || !day.is_expired(self, &mut tx, cutoff).await? {
            return Ok(0);
        }
        let rows = day.clear(self, &mut tx).await?;
        sqlx::raw_sql(self.sql(LOCK_BOTH)).execute(&mut *tx).await?;
        // Finds a job that was enqueued long ago and committed just now.
        if day.is_live(self, &mut tx).await? {
            return Ok(0);
        }
        let name = &day.name;
        let script = format!("drop table windlass.finished_d{name}; drop table windlass.jobs_d{name}");
        sqlx::raw_sql(self.dynamic(&script)).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(rows)
    }
}

/// One run of a task.
#[derive(Clone, Copy)]
struct Run<'a> {
    prune: &'a Prune,
    actor: Option<&'a Actor>,
}

/// A pair of day partitions that may be dropped.
struct Day {
    /// Digits only: it becomes part of statements.
    name: String,
    lo: i64,
    hi: i64,
}

impl Day {
    /// Whether a job of the day is waiting or running. One index probe and a scan of the few claims: cheap under the
    /// lock.
    async fn is_live(&self, store: &PostgresStore, conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar(store.sql(LIVE)).bind(self.lo).bind(self.hi).fetch_one(conn).await
    }

    /// Whether all jobs of the day are finished and old enough, and none is a dead letter. This holds until the
    /// transaction ends: of such a day only a cancelled job can be retried. Those are locked first, so that a retry is
    /// either visible here or waits.
    async fn is_expired(
        &self,
        store: &PostgresStore,
        conn: &mut PgConnection,
        cutoff: Time,
    ) -> Result<bool, sqlx::Error> {
        let day = &self.name;
        // A dead letter, the usual reason for an old day to stay, is found by its index without a scan.
        let dead = format!(
            "select exists (select from windlass.finished_d{day} where state in ({{failed}}, {{dead_letter}}))"
        );
        if sqlx::query_scalar(store.dynamic(&dead)).fetch_one(&mut *conn).await? {
            return Ok(false);
        }
        let hold = format!(
            "select count(*) from (select from windlass.finished_d{day} where state = {{cancelled}} for update) held"
        );
        sqlx::query(store.dynamic(&hold)).execute(&mut *conn).await?;
        let left = format!(
            "select exists (select from windlass.finished_d{day} where state in ({{failed}}, {{dead_letter}}))
                 or exists (select from windlass.finished_d{day} where finished_at >= $1)
                 or exists (select from windlass.jobs_d{day} j
                            where not exists (select from windlass.finished_d{day} f where f.id = j.id))"
        );
        let left: bool =
            sqlx::query_scalar(store.dynamic(&left)).bind(PgTime(cutoff)).fetch_one(conn).await?;
        Ok(!left)
    }

    /// Removes the rows of the day's jobs from other tables. Returns the number of jobs.
    async fn clear(&self, store: &PostgresStore, conn: &mut PgConnection) -> Result<u64, sqlx::Error> {
        let Day { name, lo, hi } = self;
        let script = format!(
            "delete from windlass.attempts where id >= {lo} and id < {hi};
             delete from windlass.logs where job_id >= {lo} and job_id < {hi};
             delete from windlass.progress where job_id >= {lo} and job_id < {hi};
             delete from windlass.cancels where job_id >= {lo} and job_id < {hi}"
        );
        sqlx::raw_sql(store.dynamic(&script)).execute(&mut *conn).await?;
        let count = format!("select count(*) from windlass.finished_d{name}");
        let rows: i64 = sqlx::query_scalar(store.dynamic(&count)).fetch_one(conn).await?;
        Ok(u64::try_from(rows).unwrap_or(0))
    }
}
