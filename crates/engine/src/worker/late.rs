//! Late jobs, those due for too long: when a claim leaves a share of its slots to them, and how.

use std::time::{Duration, Instant};

use windlass_core::order::{Reserve, late_after};
use windlass_core::store::{Claim, LateJobs};
use windlass_core::{LeasedJob, QueueSpec, Store, StoreError};

/// Claiming late jobs costs a statement of its own, so each queue does it at most this often.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The slots of one queue reserved for late jobs.
pub(super) struct LateReserve {
    after: Option<Duration>,
    sla: Option<Duration>,
    reserve: Reserve,
    /// Late jobs are not claimed before this.
    look_at: Instant,
}

/// The part of a claim that is for late jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LateShare {
    after: Duration,
    most: u32,
    /// Claimed before the most urgent jobs, not after them.
    first: bool,
}

/// What a claim brought.
pub(super) struct ClaimedJobs {
    pub(super) jobs: Vec<LeasedJob>,
    /// Slots that were offered to late jobs, and how many of them were filled.
    tried: u32,
    late: u32,
    /// More late jobs may wait because the queue's global concurrency is used up.
    waiting: bool,
}

impl ClaimedJobs {
    fn urgent(jobs: Vec<LeasedJob>) -> ClaimedJobs {
        ClaimedJobs { jobs, tried: 0, late: 0, waiting: false }
    }
}

impl LateReserve {
    pub(super) fn new(spec: Option<&QueueSpec>, now: Instant) -> LateReserve {
        let sla = spec.and_then(|spec| spec.sla);
        let after = spec.and_then(|spec| late_after(spec.boost_after, sla));
        LateReserve { after, sla, reserve: Reserve::default(), look_at: now }
    }

    /// Applies the setting in force.
    pub(super) fn set(&mut self, boost_after: Option<Duration>) {
        self.after = late_after(boost_after, self.sla);
    }

    /// The share of a claim for `slots` slots. In a queue with a global concurrency late jobs are claimed first: there
    /// a short answer proves only that other workers use the rest, not that no job waits.
    pub(super) fn share(&mut self, slots: u32, limited: bool, now: Instant) -> Option<LateShare> {
        let after = self.after?;
        let most = self.reserve.share(slots);
        if most == 0 || now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        Some(LateShare { after, most, first: limited })
    }

    /// Counts the slots that were filled, not those that were asked for.
    pub(super) fn filled(&mut self, claimed: &ClaimedJobs) {
        let all = claimed.jobs.len() as u32;
        self.reserve.spend(claimed.tried, claimed.late, claimed.waiting);
        self.reserve.earn(all);
        // A slot may get free at any moment, so late jobs are claimed again with the next claim.
        if claimed.waiting && claimed.late < claimed.tried {
            self.look_at -= LOOK_EVERY;
        }
    }
}

/// Claims the most urgent jobs first, and late ones only where that came back full: a short answer means that no job
/// waits. So a worker that keeps up with its queue pays nothing for late jobs.
pub(super) async fn claim(
    store: &dyn Store,
    claim: &Claim,
    share: Option<LateShare>,
) -> Result<ClaimedJobs, StoreError> {
    let Some(LateShare { after, most, first }) = share else {
        return Ok(ClaimedJobs::urgent(store.claim(claim).await?));
    };
    let part = |limit| Claim { limit, ..claim.clone() };
    let urgent = if first { 0 } else { claim.limit.saturating_sub(most) };
    let mut jobs = match urgent {
        0 => Vec::new(),
        limit => store.claim(&part(limit)).await?,
    };
    if (jobs.len() as u32) < urgent {
        return Ok(ClaimedJobs::urgent(jobs));
    }
    let LateJobs { jobs: found, waiting } = store.claim_late(&part(most), after).await?;
    let late = found.len() as u32;
    jobs.splice(0..0, found);
    let left = claim.limit.saturating_sub(jobs.len() as u32);
    if left > 0 {
        jobs.extend(store.claim(&part(left)).await?);
    }
    Ok(ClaimedJobs { jobs, tried: most, late, waiting: first && waiting })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn earned(late: &mut LateReserve, slots: u32) {
        late.reserve.earn(slots);
    }

    #[test]
    fn a_quarter_is_asked_for_now_and_then() {
        let now = Instant::now();
        let mut late = LateReserve::new(Some(&QueueSpec::named("Q")), now);
        assert_eq!(late.share(100, false, now), None, "nothing was filled yet");
        earned(&mut late, 100);
        let share = late.share(100, false, now).unwrap();
        assert_eq!(
            (share.most, share.after, share.first),
            (25, Duration::from_secs(225), false),
            "three quarters of five minutes"
        );
        late.reserve.spend(25, 25, false);
        earned(&mut late, 100);
        assert_eq!(late.share(100, false, now), None, "not so soon again");
        earned(&mut late, 100);
        assert_eq!(
            late.share(100, true, now + LOOK_EVERY).map(|share| (share.most, share.first)),
            Some((50, true))
        );
        let spec = QueueSpec { boost_after: None, ..QueueSpec::named("Q") };
        let mut late = LateReserve::new(Some(&spec), now);
        earned(&mut late, 100);
        assert_eq!(late.share(100, false, now), None, "turned off");
        late.set(Some(Duration::from_secs(7)));
        assert_eq!(late.share(100, false, now).unwrap().after, Duration::from_secs(7), "turned on live");
        late.set(None);
        assert_eq!(late.share(100, false, now + LOOK_EVERY), None, "and off again");
    }
}
