//! Jobs that have been due too long: when a claim leaves a share of its slots to them, and how.

use std::time::{Duration, Instant};

use windlass_core::order::{Reserve, late_after};
use windlass_core::store::Claim;
use windlass_core::{LeasedJob, QueueSpec, Store, StoreError};

/// A look for late jobs costs a statement of its own, so a queue has one in so long at most.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The reserve of one queue.
pub(super) struct Late {
    after: Option<Duration>,
    sla: Option<Duration>,
    reserve: Reserve,
    look_at: Instant,
}

/// Part of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    after: Duration,
    most: u32,
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

    /// What of a claim for so many slots is for late jobs.
    pub(super) fn share(&mut self, slots: u32, now: Instant) -> Option<Share> {
        let after = self.after?;
        self.reserve.earn(slots);
        if now < self.look_at {
            return None;
        }
        let most = self.reserve.spend(slots);
        if most == 0 {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        Some(Share { after, most })
    }
}

/// First what is most urgent. Only where that leaves nothing over does anybody wait, and the share is asked for: a worker
/// that keeps up with its queue claims as if there were none.
pub(super) async fn claim(
    store: &dyn Store,
    claim: &Claim,
    share: Option<Share>,
) -> Result<Vec<LeasedJob>, StoreError> {
    let Some(Share { after, most }) = share else { return store.claim(claim).await };
    let part = |limit| Claim { limit, ..claim.clone() };
    let urgent = claim.limit.saturating_sub(most);
    let mut jobs = match urgent {
        0 => Vec::new(),
        limit => store.claim(&part(limit)).await?,
    };
    if (jobs.len() as u32) < urgent {
        return Ok(jobs);
    }
    let late = store.claim_late(&part(most), after).await?;
    let left = most.saturating_sub(late.len() as u32);
    jobs.splice(0..0, late);
    if left > 0 {
        jobs.extend(store.claim(&part(left)).await?);
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_asked_for_now_and_then() {
        let now = Instant::now();
        let mut late = Late::new(Some(&QueueSpec::named("Q")), now);
        let share = late.share(100, now).unwrap();
        assert_eq!(
            (share.most, share.after),
            (25, Duration::from_secs(225)),
            "three quarters of five minutes"
        );
        assert_eq!(late.share(100, now), None, "not so soon again");
        assert_eq!(late.share(100, now + LOOK_EVERY).unwrap().most, 50, "saved meanwhile");
        let spec = QueueSpec { boost_after: None, ..QueueSpec::named("Q") };
        let mut late = Late::new(Some(&spec), now);
        assert_eq!(late.share(100, now), None, "turned off");
        late.set(Some(Duration::from_secs(7)));
        assert_eq!(late.share(100, now).unwrap().after, Duration::from_secs(7), "turned on live");
        late.set(None);
        assert_eq!(late.share(100, now + LOOK_EVERY), None, "and off again");
    }
}
