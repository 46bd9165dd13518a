//! Day partitions of `jobs` and `finished`.
//!
//! Owns their creation and their names. A day is a UTC day and a range of ids. Creating one is idempotent, gives up
//! instead of waiting for a lock, and never fails its caller: rows without a partition go to the default one, which
//! `examine` reports.

use sqlx::Row;
use windlass_core::StoreError;

use crate::PostgresStore;
use crate::error::{code, failed, translate};

const DAYS_AHEAD: i32 = 3;

const MISSING_DAYS: &str = "
    select to_char(to_timestamp(d * 86400) at time zone 'UTC', 'YYYYMMDD') as day,
           (d * 86400000) << 22 as lo, ((d + 1) * 86400000) << 22 as hi
    from (select floor(extract(epoch from clock_timestamp()) / 86400)::bigint + n as d
          from generate_series(0, $1::int) n) days
    where to_regclass('windlass.finished_d' || to_char(to_timestamp(d * 86400) at time zone 'UTC', 'YYYYMMDD'))
          is null
    order by d";

impl PostgresStore {
    /// Creates the missing partitions for today and the days ahead.
    pub(crate) async fn ensure_days(&self) -> Result<(), StoreError> {
        let op = "create day partitions";
        let days = sqlx::query(self.sql(MISSING_DAYS))
            .bind(DAYS_AHEAD)
            .fetch_all(&self.pool)
            .await
            .map_err(failed(op))?;
        for row in days {
            let read = |e| translate(op, e);
            let day: String = row.try_get("day").map_err(read)?;
            let (lo, hi): (i64, i64) = (row.try_get("lo").map_err(read)?, row.try_get("hi").map_err(read)?);
            match self.make_day(&day, lo, hi).await {
                Ok(()) => {}
                Err(error) if can_wait(&error) => {
                    tracing::debug!(%error, day, "the day's partition was not created; the next call retries");
                }
                Err(error) => return Err(translate(op, error)),
            }
        }
        Ok(())
    }

    async fn make_day(&self, day: &str, lo: i64, hi: i64) -> Result<(), sqlx::Error> {
        let mut tx = self.pool.begin().await?;
        let script = format!(
            "set local lock_timeout = '500ms';
             select pg_advisory_xact_lock(hashtext('windlass.jobs'));
             create table if not exists windlass.jobs_d{day}
                 partition of windlass.jobs for values from ({lo}) to ({hi});
             create table if not exists windlass.finished_d{day}
                 partition of windlass.finished for values from ({lo}) to ({hi});"
        );
        sqlx::raw_sql(self.dynamic(&script)).execute(&mut *tx).await?;
        tx.commit().await
    }
}

/// The lock timed out, another process was faster, or the default partition already has rows of that day or too many
/// rows to check. The rows are safe where they are.
fn can_wait(error: &sqlx::Error) -> bool {
    matches!(code(error).as_str(), "55P03" | "40P01" | "42P07" | "23505" | "23514" | "57014")
}
