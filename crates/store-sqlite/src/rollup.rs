//! Per-minute counts that workers append.
//!
//! Owns: the table behind every chart. Rows are only appended, never updated, so no counter row is contended. Never
//! counts jobs itself.

use rusqlite::Connection;
use windlass_core::store::Rollup;
use windlass_core::time::micros;
use windlass_core::{KindId, QueueId, Time};

use crate::error::Answer;
use crate::row::duration;
use crate::scope::Scope;

pub(crate) fn record(scope: &mut Scope<'_>, rollups: &[Rollup]) -> Answer<()> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for rollup in rollups {
        let latency = serde_json::to_string(&rollup.latency).unwrap_or_else(|_| "[]".to_owned());
        scope
            .connection
            .prepare_cached(
                "insert into windlass_rollups (minute, queue, kind, completed, retried, dead, run_us, latency)
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute((
                rollup.minute.0,
                rollup.queue.0,
                rollup.kind.0,
                number(rollup.completed),
                number(rollup.retried),
                number(rollup.dead),
                micros(rollup.run),
                latency,
            ))?;
    }
    Ok(())
}

pub(crate) fn rollups(connection: &Connection, since: Time) -> Answer<Vec<Rollup>> {
    let mut statement = connection.prepare_cached(
        "select minute, queue, kind, completed, retried, dead, run_us, latency from windlass_rollups
         where minute >= ?1 order by minute, seq",
    )?;
    let rows = statement.query_map([since.0], |row| {
        Ok(Rollup {
            minute: Time(row.get(0)?),
            queue: QueueId(row.get(1)?),
            kind: KindId(row.get(2)?),
            completed: row.get::<_, i64>(3)?.unsigned_abs(),
            retried: row.get::<_, i64>(4)?.unsigned_abs(),
            dead: row.get::<_, i64>(5)?.unsigned_abs(),
            run: duration(row.get(6)?),
            latency: serde_json::from_str(&row.get::<_, String>(7)?).unwrap_or_default(),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
