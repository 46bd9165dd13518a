//! Unique keys that a job holds until it has ended. The end of the job removes the row (`end`).

use rusqlite::OptionalExtension;
use windlass_core::{JobId, Unique, UniqueUntil};

use crate::error::Answer;
use crate::scope::Scope;

/// The job that holds the key until it has ended.
pub(crate) fn holder(scope: &Scope<'_>, key: &str) -> Answer<Option<JobId>> {
    let job = scope
        .connection
        .prepare_cached("select job_id from windlass_unique_keys where key = ?1")?
        .query_row([key], |row| row.get(0).map(JobId))
        .optional()?;
    Ok(job)
}

/// The job was accepted. A job that took the place of the holder takes its key too.
pub(crate) fn hold(scope: &Scope<'_>, unique: &Unique, job: JobId) -> Answer<()> {
    if unique.until == UniqueUntil::Finished {
        hold_key(scope, &unique.key, job)?;
    }
    Ok(())
}

pub(crate) fn hold_key(scope: &Scope<'_>, key: &str, job: JobId) -> Answer<()> {
    scope
        .connection
        .prepare_cached("insert or replace into windlass_unique_keys (key, job_id) values (?1, ?2)")?
        .execute((key, job.0))?;
    Ok(())
}
