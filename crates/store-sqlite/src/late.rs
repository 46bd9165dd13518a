//! Leasing jobs that have been due too long, whatever their priority.
//!
//! Owns: the look for them. Who of them comes first is decided by `windlass_core::order`. Never follows looks at lanes: a
//! claim of all priorities comes right after.

use std::time::Duration;

use windlass_core::Time;
use windlass_core::order::longest_due;
use windlass_core::queue::MAX_PRIORITY;
use windlass_core::store::{Claim, LateJobs};

use crate::claim::{May, may_claim, take_all, walk};
use crate::error::Answer;
use crate::scope::Scope;
use crate::turn;

/// Those that have been due for longer than `after`, the longest first.
pub(crate) fn claim_late(scope: &mut Scope<'_>, claim: &Claim, after: Duration) -> Answer<LateJobs> {
    let Some(May { limit, limited }) = may_claim(scope.connection, claim)? else {
        return Ok(LateJobs { jobs: Vec::new(), waiting: true });
    };
    let cut = limit < claim.limit;
    let claim = &Claim { limit, ..claim.clone() };
    let before = scope.now.minus(after);
    let turns = turn::any(scope.connection, claim.queue)?;
    let mut next = Vec::new();
    for priority in 0..=MAX_PRIORITY {
        next.append(&mut walk(scope.connection, claim, priority, (before, turns), limit as usize)?);
    }
    let places: Vec<(u8, Time)> = next.iter().map(|next| (next.priority(), next.place())).collect();
    let mut shares = longest_due(&places, limit);
    next.retain(|next| match shares.iter_mut().find(|(priority, _)| *priority == next.priority()) {
        Some((_, left)) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    });
    let mut jobs = take_all(scope, claim, limited, next)?;
    jobs.sort_unstable_by_key(|job| (job.run_at, job.priority, job.id));
    let waiting = cut && jobs.len() == limit as usize;
    Ok(LateJobs { jobs, waiting })
}
