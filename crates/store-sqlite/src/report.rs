//! Progress and log lines of running attempts.
//!
//! Owns: both tables. Fenced like a settlement: what a lost lease says is dropped. Never wakes anybody.

use windlass_core::store::{Report, ReportBody};

use crate::error::Answer;
use crate::lease::Leases;
use crate::scope::Scope;

pub(crate) fn report(scope: &mut Scope<'_>, reports: &[Report]) -> Answer<u64> {
    let mut leases = Leases::default();
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
                .prepare_cached(
                    "insert into windlass_progress (job_id, percent, message, at) values (?1, ?2, ?3, ?4)
                     on conflict (job_id) do update set percent = excluded.percent, message = excluded.message,
                         at = excluded.at",
                )?
                .execute((report.id.0, f64::from(*percent), message, scope.now.0))?,
            ReportBody::Log { line } => scope
                .connection
                .prepare_cached("insert into windlass_logs (job_id, attempt, at, line) values (?1, ?2, ?3, ?4)")?
                .execute((report.id.0, report.attempt, scope.now.0, line))?,
        };
    }
    Ok(kept)
}
