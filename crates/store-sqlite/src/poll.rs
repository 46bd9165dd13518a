//! The floor query: what is due, when the next job is, what to stop.
//!
//! One short read that alone is correct when every wake-up is lost. Never walks over waiting jobs: the earliest of
//! each priority is the first entry of an index range.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::queue::MAX_PRIORITY;
use windlass_core::store::{Poll, QueueDue};
use windlass_core::{JobId, QueueId, Time, WorkerId};

use crate::error::Answer;
use crate::lease;

pub(crate) fn poll(connection: &Connection, worker: WorkerId, now: Time) -> Answer<Poll> {
    let mut queues = Vec::new();
    let mut statement = connection.prepare_cached(
        "select id, paused, coalesce(live_concurrency, concurrency) from windlass_queues order by id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let queue = QueueId(row.get(0)?);
        queues.push(QueueDue {
            queue,
            next_due: next_due(connection, queue)?,
            suspect: suspect_due(connection, queue, now)?,
            paused: row.get(1)?,
            concurrency: row.get(2)?,
        });
    }
    Ok(Poll { now, queues, cancel: cancels(connection, worker)? })
}

/// Suspects are left out: an ordinary claim would not get them.
fn next_due(connection: &Connection, queue: QueueId) -> Answer<Option<Time>> {
    let mut statement = connection.prepare_cached(
        "select run_at from windlass_ready where queue = ?1 and priority = ?2 and suspect is null
         order by run_at, id limit 1",
    )?;
    let mut earliest: Option<i64> = None;
    for priority in 0..=MAX_PRIORITY {
        let first: Option<i64> = statement.query_row((queue.0, priority), |row| row.get(0)).optional()?;
        earliest = match (earliest, first) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    Ok(earliest.map(Time))
}

fn suspect_due(connection: &Connection, queue: QueueId, now: Time) -> Answer<bool> {
    let due = connection
        .prepare_cached(
            "select exists (select 1 from windlass_ready
                            where queue = ?1 and suspect is not null and run_at <= ?2)",
        )?
        .query_row((queue.0, now.0), |row| row.get(0))?;
    Ok(due)
}

fn cancels(connection: &Connection, worker: WorkerId) -> Answer<Vec<JobId>> {
    let mut statement = connection.prepare_cached("select job_id from windlass_cancels order by job_id")?;
    let asked = statement.query_map([], |row| row.get(0).map(JobId))?.collect::<Result<Vec<_>, _>>()?;
    if asked.is_empty() {
        return Ok(asked);
    }
    let held = lease::of_worker(connection, worker)?;
    Ok(asked.into_iter().filter(|id| held.iter().any(|claim| claim.holds(*id))).collect())
}
