//! Leasing jobs that have been due too long, whatever their priority.
//!
//! `windlass_core::order` decides which of them come first. Never follows lane checks: a claim of all priorities
//! comes right after.

use std::time::Duration;

use windlass_core::Time;
use windlass_core::order::longest_due;
use windlass_core::store::{Claim, LateJobs};

use crate::claim::{ClaimLimits, Due, claim_limits, next_priority, take_all, walk};
use crate::error::Answer;
use crate::scope::Scope;

/// Jobs that have been due for longer than `after`, the longest first.
pub(crate) fn claim_late(scope: &mut Scope<'_>, claim: &Claim, after: Duration) -> Answer<LateJobs> {
    let before = scope.now.minus(after);
    let mut late: Vec<Due> = Vec::new();
    let mut from = 0;
    while let Some(priority) = next_priority(scope.connection, claim.queue, from)? {
        late.append(&mut walk(scope.connection, claim, priority, before, claim.limit as usize)?);
        from = priority + 1;
    }
    let found = late.len();
    let Some(ClaimLimits { limit, limited, .. }) = claim_limits(scope.connection, claim)? else {
        return Ok(LateJobs::leased(Vec::new(), found));
    };
    let places: Vec<(u8, Time)> = late.iter().map(|job| (job.priority, job.run_at)).collect();
    let mut shares = longest_due(&places, limit);
    late.retain(|job| match shares.iter_mut().find(|(priority, _)| *priority == job.priority) {
        Some((_, left)) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    });
    let jobs = take_all(scope, &Claim { limit, ..claim.clone() }, limited, &late)?;
    Ok(LateJobs::leased(jobs, found))
}
