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
    let Some(ClaimLimits { limit, limited, .. }) = claim_limits(scope.connection, claim)? else {
        return Ok(LateJobs { jobs: Vec::new(), waiting: true });
    };
    let cut = limit < claim.limit;
    let claim = &Claim { limit, ..claim.clone() };
    let before = scope.now.minus(after);
    let mut late: Vec<Due> = Vec::new();
    let mut from = 0;
    while let Some(priority) = next_priority(scope.connection, claim.queue, from)? {
        late.append(&mut walk(scope.connection, claim, priority, before, limit as usize)?);
        from = priority + 1;
    }
    let places: Vec<(u8, Time)> = late.iter().map(|job| (job.priority, job.run_at)).collect();
    let mut shares = longest_due(&places, limit);
    late.retain(|job| match shares.iter_mut().find(|(priority, _)| *priority == job.priority) {
        Some((_, left)) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    });
    let mut jobs = take_all(scope, claim, limited, &late)?;
    jobs.sort_unstable_by_key(|job| (job.run_at, job.priority, job.id));
    let waiting = cut && jobs.len() == limit as usize;
    Ok(LateJobs { jobs, waiting })
}
