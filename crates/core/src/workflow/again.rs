//! Which jobs of a workflow a retry brings back.

use super::{Member, MemberStatus, OnFailure, advance};
use crate::JobState;

/// What to write for a retry, before [`advance`] is applied to the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// Ended jobs that return to waiting.
    pub revive: Vec<usize>,
}

/// Retries those of `wanted` that failed, died or were cancelled, together with the jobs cancelled below them. A job
/// stays as it is if one of its parents can no longer succeed. Once compensation has begun, only compensating jobs can
/// be retried: completed jobs were undone, so others cannot build on them.
pub fn again(members: &[Member], on_failure: OnFailure, wanted: &[usize]) -> Again {
    let undoing = members.iter().any(|member| member.undoes.is_some());
    let mut chosen = vec![false; members.len()];
    for n in wanted {
        let may = !undoing || members[*n].undoes.is_some();
        chosen[*n] = may && can_return(members[*n].status);
    }
    let mut below = chosen.clone();
    for (n, member) in members.iter().enumerate() {
        let cancelled = member.status == MemberStatus::Ended(JobState::Cancelled);
        below[n] |= cancelled && !undoing && member.parents.iter().any(|parent| below[*parent]);
    }
    let mut then = members.to_vec();
    for (n, member) in then.iter_mut().enumerate() {
        if below[n] {
            member.status = MemberStatus::Waits;
        }
    }
    let stopped = advance(&then, on_failure).cancel;
    Again { revive: (0..members.len()).filter(|n| below[*n] && !stopped.contains(n)).collect() }
}

fn can_return(status: MemberStatus) -> bool {
    matches!(status, MemberStatus::Ended(state) if state.can_replay())
}

#[cfg(test)]
mod tests {
    use super::super::advance::tests::{CANCELLED, DEAD, DONE, diamond, member};
    use super::*;

    fn revived(members: &[Member], wanted: &[usize]) -> Vec<usize> {
        again(members, OnFailure::Stop, wanted).revive
    }

    #[test]
    fn a_retried_job_revives_what_was_cancelled_below_it() {
        let members = diamond([DONE, DEAD, DONE, CANCELLED]);
        assert_eq!(revived(&members, &[1]), [1, 3]);
        assert_eq!(revived(&members, &[0, 1, 2, 3]), [1, 3], "completed ones stay");
        assert_eq!(revived(&diamond([DEAD, CANCELLED, CANCELLED, CANCELLED]), &[0]), [0, 1, 2, 3]);
    }

    #[test]
    fn jobs_that_still_cannot_run_stay_cancelled() {
        let members = diamond([DONE, DEAD, DEAD, CANCELLED]);
        assert_eq!(revived(&members, &[3]), Vec::<usize>::new());
        assert_eq!(revived(&members, &[1]), [1]);
        assert_eq!(revived(&members, &[1, 2]), [1, 2, 3]);
    }

    #[test]
    fn once_compensation_began_only_compensating_jobs_are_retried() {
        let mut members = diamond([DONE, DEAD, DONE, CANCELLED]);
        members.push(Member { undoes: Some(2), ..member(DEAD, &[]) });
        let got = again(&members, OnFailure::Compensate, &[0, 1, 2, 3, 4]);
        assert_eq!(got.revive, [4]);
    }
}
