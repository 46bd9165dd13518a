//! Windows of unique keys: for this long after a job was accepted, another job with the key is a duplicate.
//!
//! Owns `unique_windows`. Only jobs that ask for a window read or write it. Never ends a job.

use rusqlite::OptionalExtension;
use windlass_core::{JobId, Unique};

use crate::error::Answer;
use crate::scope::Scope;

/// The job whose window of the key lasts.
pub(crate) fn lasting(scope: &Scope<'_>, unique: &Unique) -> Answer<Option<JobId>> {
    if unique.window.is_none() {
        return Ok(None);
    }
    let job = scope
        .connection
        .prepare_cached("select job_id from windlass_unique_windows where key = ?1 and until > ?2")?
        .query_row((&unique.key, scope.now.0), |row| row.get(0).map(JobId))
        .optional()?;
    Ok(job)
}

/// The job was accepted. Where it replaced another, that job's window goes on.
pub(crate) fn open(scope: &Scope<'_>, unique: &Unique, job: JobId) -> Answer<()> {
    let Some(window) = unique.window else { return Ok(()) };
    scope
        .connection
        .prepare_cached(
            "insert into windlass_unique_windows (key, job_id, until) values (?1, ?2, ?3)
             on conflict (key) do update set job_id = excluded.job_id,
                 until = case when until > ?4 then until else excluded.until end",
        )?
        .execute((&unique.key, job.0, scope.now.plus(window).0, scope.now.0))?;
    Ok(())
}
