//! Progress and log lines of running attempts.
//!
//! Owns: both tables. Fenced like a settlement: reports of a lost lease are dropped. The newest thousand lines of
//! each job are kept. Never wakes anyone.

use std::collections::BTreeSet;

use windlass_core::JobId;
use windlass_core::store::{Report, ReportBody};

use crate::error::Answer;
use crate::lease::Leases;
use crate::scope::Scope;

/// SQLite stores NaN as NULL. A NaN percentage keeps the last number, and the rest of the report is stored.
const PROGRESS: &str = "
    insert into windlass_progress (job_id, percent, message, at) values (?1, coalesce(?2, 0), ?3, ?4)
    on conflict (job_id) do update set percent = coalesce(?2, percent), message = excluded.message,
        at = excluded.at";

const TRIM: &str = "
    delete from windlass_logs where job_id = ?1 and seq <=
        (select seq from windlass_logs where job_id = ?1 order by seq desc limit 1 offset ?2)";

const LINES_KEPT: i64 = 1_000;

pub(crate) fn report(scope: &mut Scope<'_>, reports: &[Report]) -> Answer<u64> {
    let mut leases = Leases::default();
    let mut logged = BTreeSet::<JobId>::new();
    let mut kept = 0;
    for report in reports {
        let held = leases.get(scope.connection, report.token)?;
        if held.is_none_or(|held| !held.holds(report.id)) {
            continue;
        }
        kept += 1;
        match &report.body {
            ReportBody::Progress { percent, message } => scope
                .connection
                .prepare_cached(PROGRESS)?
                .execute((report.id.0, f64::from(*percent), message, scope.now.0))?,
            ReportBody::Log { line } => {
                logged.insert(report.id);
                scope
                    .connection
                    .prepare_cached(
                        "insert into windlass_logs (job_id, attempt, at, line) values (?1, ?2, ?3, ?4)",
                    )?
                    .execute((report.id.0, report.attempt, scope.now.0, line))?
            }
        };
    }
    for job in logged {
        scope.connection.prepare_cached(TRIM)?.execute((job.0, LINES_KEPT))?;
    }
    Ok(kept)
}
