//! Jobs that have been due too long: when a claim leaves a share of its slots to them, and how.

use std::time::{Duration, Instant};

use windlass_core::order::{Reserve, late_after};
use windlass_core::store::{Claim, LateJobs};
use windlass_core::{LeasedJob, QueueSpec, Store, StoreError};

/// A look for late jobs costs a statement of its own, so a queue has one in so long at most.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The reserve of one queue.
pub(super) struct Late {
    after: Option<Duration>,
    sla: Option<Duration>,
    reserve: Reserve,
    /// Not before then.
    pub(super) look_at: Instant,
}

/// Part of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    after: Duration,
    most: u32,
    /// Before what is most urgent.
    first: bool,
}

/// What a claim brought.
pub(super) struct Caught {
    pub(super) jobs: Vec<LeasedJob>,
    /// How many of the late jobs' share were tried, and how many brought one.
    tried: u32,
    late: u32,
    /// Late jobs may be waiting for room in a queue with a global concurrency.
    waiting: bool,
}

impl Caught {
    fn urgent(jobs: Vec<LeasedJob>) -> Caught {
        Caught { jobs, tried: 0, late: 0, waiting: false }
    }
}

impl Late {
    pub(super) fn new(spec: Option<&QueueSpec>, now: Instant) -> Late {
        let sla = spec.and_then(|spec| spec.sla);
        let after = spec.and_then(|spec| late_after(spec.boost_after, sla));
        Late { after, sla, reserve: Reserve::default(), look_at: now }
    }

    /// What is in force now.
    pub(super) fn set(&mut self, boost_after: Option<Duration>) {
        self.after = late_after(boost_after, self.sla);
    }

    /// What of a claim for so many slots is for late jobs. In a queue with a global concurrency they are looked for first:
    /// a claim that brings less than was asked for proves nothing there, only that others have the rest.
    pub(super) fn share(&mut self, slots: u32, limited: bool, now: Instant) -> Option<Share> {
        let after = self.after?;
        let most = self.reserve.share(slots);
        if most == 0 || now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        Some(Share { after, most, first: limited })
    }

    /// So many slots were filled: only those count, not what was asked for.
    pub(super) fn filled(&mut self, caught: &Caught) {
        let all = caught.jobs.len() as u32;
        self.reserve.spend(caught.tried, caught.late, caught.waiting);
        self.reserve.earn(all);
        // Room may come at any moment, and whoever claims then has it: the look is owed.
        if caught.waiting && caught.late < caught.tried {
            self.look_at -= LOOK_EVERY;
        }
    }
}

/// First what is most urgent. Only where that leaves nothing over does anybody wait, and the share is asked for: a worker
/// that keeps up with its queue claims as if there were none.
pub(super) async fn claim(
    store: &dyn Store,
    claim: &Claim,
    share: Option<Share>,
) -> Result<Caught, StoreError> {
    let Some(Share { after, most, first }) = share else {
        return Ok(Caught::urgent(store.claim(claim).await?));
    };
    let part = |limit| Claim { limit, ..claim.clone() };
    let urgent = if first { 0 } else { claim.limit.saturating_sub(most) };
    let mut jobs = match urgent {
        0 => Vec::new(),
        limit => store.claim(&part(limit)).await?,
    };
    if (jobs.len() as u32) < urgent {
        return Ok(Caught::urgent(jobs));
    }
    let LateJobs { jobs: found, waiting } = store.claim_late(&part(most), after).await?;
    let late = found.len() as u32;
    jobs.splice(0..0, found);
    let left = claim.limit.saturating_sub(jobs.len() as u32);
    if left > 0 {
        jobs.extend(store.claim(&part(left)).await?);
    }
    Ok(Caught { jobs, tried: most, late, waiting: first && waiting })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn earned(late: &mut Late, slots: u32) {
        late.reserve.earn(slots);
    }

    #[test]
    fn a_quarter_is_asked_for_now_and_then() {
        let now = Instant::now();
        let mut late = Late::new(Some(&QueueSpec::named("Q")), now);
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
        let mut late = Late::new(Some(&spec), now);
        earned(&mut late, 100);
        assert_eq!(late.share(100, false, now), None, "turned off");
        late.set(Some(Duration::from_secs(7)));
        assert_eq!(late.share(100, false, now).unwrap().after, Duration::from_secs(7), "turned on live");
        late.set(None);
        assert_eq!(late.share(100, false, now + LOOK_EVERY), None, "and off again");
    }
}
