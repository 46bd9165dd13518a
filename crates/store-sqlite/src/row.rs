//! Between columns and the contract's types.
//!
//! Owns: durations as microseconds, tags as JSON text, and the columns of a shown job. Never runs a statement.

use std::time::Duration;

use rusqlite::Row;
use windlass_core::queue::NO_QUEUE;
use windlass_core::{EntityRef, JobId, JobRecord, JobState, Progress, Time, WorkerId, WorkflowId};

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// An attempt number or limit.
pub(crate) fn small(row: &Row<'_>, column: usize) -> rusqlite::Result<u16> {
    row.get(column)
}

/// `None` for no tags: most jobs have none.
pub(crate) fn tags_text(tags: &[String]) -> Option<String> {
    if tags.is_empty() {
        return None;
    }
    serde_json::to_string(tags).ok()
}

pub(crate) fn tags(text: Option<String>) -> Vec<String> {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Columns of a shown job; `l` is a lease, `r` a waiting row, `f` a finished row, `p` the progress. Fits [`record`].
pub(crate) const RECORD_COLUMNS: &str =
    "j.id, k.name, q.name, j.priority, j.payload, j.max_attempts, j.timeout_us, j.created_at, j.unique_key,
     j.concurrency_key, j.tags, j.entity_type, j.entity_id, j.tenant,
     r.run_at, r.attempt, f.state, f.attempt, f.started_at, f.finished_at, f.result, f.error, f.worker,
     p.percent, p.message, p.at, r.queue, j.parent_id";

/// What the tables say about a job, except its lease: a job that neither waits nor has finished is running.
pub(crate) fn record(row: &Row<'_>, now: Time) -> rusqlite::Result<JobRecord> {
    let run_at = row.get::<_, Option<i64>>(14)?.map(Time);
    let queue: Option<i32> = row.get(26)?;
    let finished: Option<i16> = row.get(16)?;
    let state = match (run_at, finished.and_then(JobState::from_code)) {
        (_, Some(state)) => state,
        (Some(at), None) if at > now => JobState::Scheduled,
        (Some(_), None) => JobState::Pending,
        (None, None) => JobState::Running,
    };
    let entity = match (row.get(11)?, row.get(12)?) {
        (Some(entity_type), Some(entity_id)) => Some(EntityRef { entity_type, entity_id }),
        _ => None,
    };
    let progress = match (row.get::<_, Option<f64>>(23)?, row.get::<_, Option<i64>>(25)?) {
        (Some(percent), Some(at)) => {
            Some(Progress { percent: percent as f32, message: row.get(24)?, at: Time(at) })
        }
        _ => None,
    };
    Ok(JobRecord {
        id: JobId(row.get(0)?),
        kind: row.get(1)?,
        queue: row.get(2)?,
        state,
        priority: row.get(3)?,
        payload: row.get(4)?,
        attempt: row.get::<_, Option<u16>>(15)?.or(row.get(17)?).unwrap_or(0),
        max_attempts: row.get(5)?,
        timeout: row.get::<_, Option<i64>>(6)?.map(duration),
        // One that waits for others has no time.
        run_at: run_at.filter(|_| queue != Some(NO_QUEUE.0)),
        created_at: Time(row.get(7)?),
        started_at: row.get::<_, Option<i64>>(18)?.map(Time),
        finished_at: row.get::<_, Option<i64>>(19)?.map(Time),
        progress,
        result: row.get(20)?,
        last_error: row.get(21)?,
        unique_key: row.get(8)?,
        concurrency_key: row.get(9)?,
        tags: tags(row.get(10)?),
        entity,
        tenant: row.get(13)?,
        worker: row.get::<_, Option<i64>>(22)?.map(WorkerId),
        workflow: row.get::<_, Option<i64>>(27)?.map(WorkflowId),
    })
}
