//! Conversion between columns and the contract's types.
//!
//! Owns: durations as microseconds, tags as JSON text, and the columns of a shown job. Never runs a statement.

use std::time::Duration;

use rusqlite::Row;
use windlass_core::queue::NO_QUEUE;
use windlass_core::sweep::Suspicion;
use windlass_core::{
    EntityRef, JobId, JobRecord, JobState, Progress, Time, UniqueUntil, WorkerId, WorkflowId,
};

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
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

/// Columns of a shown job, as [`record`] reads them: `l` is a lease, `r` a waiting row, `f` a finished row, `p` the
/// progress. Payload and result come from [`content_columns`].
pub(crate) const RECORD_COLUMNS: &str =
    "j.id, k.name as kind, q.name as queue, j.priority, j.max_attempts, j.timeout_us, j.created_at,
     j.unique_key, j.unique_until, j.concurrency_key, j.tags, j.entity_type, j.entity_id, j.parent_id,
     r.run_at, r.attempt as used, r.suspicion, r.queue as stored_queue, f.state, f.attempt as last_attempt, f.started_at,
     f.finished_at, f.error, f.worker, p.percent, p.message, p.at as progress_at";

/// Payload and result, whole or cut to `excerpt` bytes, with their sizes.
pub(crate) fn content_columns(excerpt: Option<u32>) -> String {
    let column = |name: &str| match excerpt {
        Some(most) => format!("substr({name}, 1, {most})"),
        None => name.to_owned(),
    };
    let (payload, result) = (column("j.payload"), column("f.result"));
    format!(
        "{payload} as payload, length(j.payload) as payload_bytes, {result} as result, \
         coalesce(length(f.result), 0) as result_bytes"
    )
}

/// A job without its lease. A job that is neither waiting nor finished is running.
pub(crate) fn record(row: &Row<'_>, now: Time) -> rusqlite::Result<JobRecord> {
    let time = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Time));
    let run_at = time("run_at")?;
    let queue: Option<i32> = row.get("stored_queue")?;
    let finished: Option<i16> = row.get("state")?;
    let state = match (run_at, finished.and_then(JobState::from_code)) {
        (_, Some(state)) => state,
        (Some(at), None) if at > now => JobState::Scheduled,
        (Some(_), None) => JobState::Pending,
        (None, None) => JobState::Running,
    };
    let entity = match (row.get("entity_type")?, row.get("entity_id")?) {
        (Some(entity_type), Some(entity_id)) => Some(EntityRef { entity_type, entity_id }),
        _ => None,
    };
    let progress = match (row.get::<_, Option<f64>>("percent")?, time("progress_at")?) {
        (Some(percent), Some(at)) => {
            Some(Progress { percent: percent as f32, message: row.get("message")?, at })
        }
        _ => None,
    };
    let until: Option<String> = row.get("unique_until")?;
    Ok(JobRecord {
        id: JobId(row.get("id")?),
        kind: row.get("kind")?,
        queue: row.get("queue")?,
        state,
        priority: row.get("priority")?,
        payload: row.get("payload")?,
        payload_bytes: row.get::<_, i64>("payload_bytes")?.unsigned_abs(),
        attempt: row.get::<_, Option<u16>>("used")?.or(row.get("last_attempt")?).unwrap_or(0),
        max_attempts: row.get("max_attempts")?,
        timeout: row.get::<_, Option<i64>>("timeout_us")?.map(duration),
        // A job that waits for its workflow has no time.
        run_at: run_at.filter(|_| queue != Some(NO_QUEUE.0)),
        created_at: Time(row.get("created_at")?),
        started_at: time("started_at")?,
        finished_at: time("finished_at")?,
        progress,
        result: row.get("result")?,
        result_bytes: row.get::<_, i64>("result_bytes")?.unsigned_abs(),
        last_error: row.get("error")?,
        unique_key: row.get("unique_key")?,
        unique_until: until.as_deref().and_then(UniqueUntil::from_name),
        concurrency_key: row.get("concurrency_key")?,
        tags: tags(row.get("tags")?),
        entity,
        worker: row.get::<_, Option<i64>>("worker")?.map(WorkerId),
        workflow: row.get::<_, Option<i64>>("parent_id")?.map(WorkflowId),
        suspicion: Suspicion::new(row.get::<_, Option<u8>>("suspicion")?.unwrap_or(0)),
    })
}
