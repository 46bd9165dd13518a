//! Per-minute counts that workers append and charts read.
//!
//! Owns `rollups`. Rows are only appended, never updated: workers would contend for a shared counter row. Never counts
//! jobs itself.

use sqlx::postgres::PgRow;
use windlass_core::store::Rollup;
use windlass_core::time::micros;
use windlass_core::{KindId, QueueId, StoreError, Time};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, big_in, count, from_micros, get, time};

const RECORD: &str = "
    insert into windlass.rollups (minute, queue, kind, completed, retried, dead, run_us, latency)
    select minute, queue, kind, completed, retried, dead, run_us, latency::bigint[]
    from unnest($1::timestamptz[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                $8::text[]) u (minute, queue, kind, completed, retried, dead, run_us, latency)";

const ROLLUPS: &str = "
    select minute, queue, kind, completed, retried, dead, run_us, latency
    from windlass.rollups where minute >= $1 order by minute, queue, kind";

impl PostgresStore {
    pub(crate) async fn do_record(&self, rollups: &[Rollup]) -> Result<(), StoreError> {
        if rollups.is_empty() {
            return Ok(());
        }
        let column = |f: fn(&Rollup) -> i64| rollups.iter().map(f).collect::<Vec<i64>>();
        sqlx::query(self.sql(RECORD))
            .bind(rollups.iter().map(|r| PgTime(r.minute)).collect::<Vec<_>>())
            .bind(rollups.iter().map(|r| r.queue.0).collect::<Vec<_>>())
            .bind(rollups.iter().map(|r| r.kind.0).collect::<Vec<_>>())
            .bind(column(|r| big_in(r.completed)))
            .bind(column(|r| big_in(r.retried)))
            .bind(column(|r| big_in(r.dead)))
            .bind(column(|r| micros(r.run)))
            .bind(rollups.iter().map(|r| buckets(&r.latency)).collect::<Vec<_>>())
            .execute(&self.pool)
            .await
            .map_err(failed("append roll-ups"))?;
        Ok(())
    }

    pub(crate) async fn do_rollups(&self, since: Time) -> Result<Vec<Rollup>, StoreError> {
        let rows = sqlx::query(self.sql(ROLLUPS))
            .bind(PgTime(since))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("read roll-ups"))?;
        rows.iter().map(read).collect()
    }
}

/// Inner arrays are sent as text, because `unnest` would flatten them.
fn buckets(counts: &[u32]) -> String {
    let words: Vec<String> = counts.iter().map(u32::to_string).collect();
    format!("{{{}}}", words.join(","))
}

fn read(row: &PgRow) -> Result<Rollup, StoreError> {
    let latency: Vec<i64> = get(row, "latency")?;
    Ok(Rollup {
        minute: time(row, "minute")?,
        queue: QueueId(get(row, "queue")?),
        kind: KindId(get(row, "kind")?),
        completed: count(row, "completed")?,
        retried: count(row, "retried")?,
        dead: count(row, "dead")?,
        latency: latency.into_iter().map(|n| u32::try_from(n).unwrap_or(u32::MAX)).collect(),
        run: from_micros(get(row, "run_us")?),
    })
}
