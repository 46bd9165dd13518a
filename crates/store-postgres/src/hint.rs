//! Low-water hints: below which `run_at` a claim need not look.
//!
//! Rows that were claimed leave dead index entries at the low end of each lane until vacuum comes; while some other
//! transaction holds a snapshot they stay. A hint starts the scan above them. It is only a hint: it keeps a second of
//! slack for late commits, whatever puts a job below it lowers it, and claims and polls scan from the bottom once a
//! second, or less often where that takes long: never more than a fiftieth of the time. So a job that nobody announced
//! is missed for a second at most on a healthy database.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::{KindId, LeasedJob, QueueId, Time};

pub(crate) const LANES: usize = 11;
const SLACK: Duration = Duration::from_secs(1);
const FULL_SCAN: Duration = Duration::from_secs(1);
/// Below any time a job can have.
pub(crate) const BOTTOM: Time = Time(0);

/// Workers that handle other kinds leave other rows behind, so hints are kept per set of kinds.
type Key = (QueueId, Vec<KindId>);

#[derive(Default)]
pub(crate) struct Hints {
    lanes: Mutex<HashMap<Key, Lanes>>,
    poll_scan: Mutex<Option<Instant>>,
}

struct Lanes {
    low: [Time; LANES],
    /// When the next claim starts from the bottom.
    full_scan: Instant,
    /// Grows when something lowered a lane, so that a claim under way does not raise it again.
    lowered: u64,
    /// The latest time a claim looked up to; a job below it came late, whatever the lanes say now.
    looked: Time,
}

/// What a claim started from, to be handed back with what it found.
pub(crate) struct Start {
    pub(crate) low: [Time; LANES],
    lowered: u64,
    /// Set for a claim from the bottom.
    full_since: Option<Instant>,
}

/// A scan from the bottom that took this long may be repeated after fifty times as long.
fn rest_after(took: Duration) -> Duration {
    FULL_SCAN.max(took * 50)
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Lanes>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, queue: QueueId, kinds: &[KindId]) -> Start {
        let mut map = self.lock();
        let now = Instant::now();
        let lanes = map.entry((queue, kinds.to_vec())).or_insert(Lanes {
            low: [BOTTOM; LANES],
            full_scan: now,
            lowered: 0,
            looked: BOTTOM,
        });
        if now < lanes.full_scan {
            return Start { low: lanes.low, lowered: lanes.lowered, full_since: None };
        }
        // Until it is known how long this one takes, no other claim does the same.
        lanes.full_scan = now + FULL_SCAN;
        Start { low: [BOTTOM; LANES], lowered: lanes.lowered, full_since: Some(now) }
    }

    pub(crate) fn low(&self, queue: QueueId, kinds: &[KindId]) -> [Time; LANES] {
        self.lock().get(&(queue, kinds.to_vec())).map_or([BOTTOM; LANES], |lanes| lanes.low)
    }

    /// Whether a poll at `now` has to look from the bottom.
    pub(crate) fn poll_from_bottom(&self, now: Instant) -> bool {
        let mut next = self.poll_scan.lock().unwrap_or_else(PoisonError::into_inner);
        let due = next.is_none_or(|next| now >= next);
        if due {
            *next = Some(now + FULL_SCAN / 2);
        }
        due
    }

    pub(crate) fn polled_from_bottom(&self, begun: Instant, ended: Instant) {
        let mut next = self.poll_scan.lock().unwrap_or_else(PoisonError::into_inner);
        // A poll comes every second; a little less than that lets each be a full one while they are cheap.
        *next = Some(ended + (FULL_SCAN / 2).max((ended - begun) * 50));
    }

    /// Raises the lanes by what one claim saw at `now`: lanes before the last one reached hold nothing due.
    pub(crate) fn raise(
        &self,
        queue: QueueId,
        kinds: &[KindId],
        start: &Start,
        now: Time,
        full: bool,
        taken: &[LeasedJob],
    ) {
        let mut map = self.lock();
        let Some(lanes) = map.get_mut(&(queue, kinds.to_vec())) else { return };
        lanes.looked = lanes.looked.max(now);
        if let Some(since) = start.full_since {
            let ended = Instant::now();
            lanes.full_scan = ended + rest_after(ended - since);
        }
        if lanes.lowered != start.lowered {
            return;
        }
        let reached = match taken.last() {
            Some(last) if full => usize::from(last.priority),
            _ => LANES,
        };
        if start.full_since.is_some() && full {
            // More may lie behind what this claim took, and the lanes after it were not looked at.
            lanes.low[reached..].fill(BOTTOM);
        }
        for (lane, low) in lanes.low.iter_mut().enumerate() {
            let seen = match (lane.cmp(&reached), taken.last()) {
                (std::cmp::Ordering::Less, _) => now,
                (std::cmp::Ordering::Equal, Some(last)) => last.run_at,
                _ => continue,
            };
            *low = (*low).max(seen.minus(SLACK));
        }
    }

    /// A job came to stand at `run_at`: no lane of its queue starts above it.
    pub(crate) fn lower(&self, queue: QueueId, run_at: Time) {
        for ((of, _), lanes) in self.lock().iter_mut() {
            if *of == queue && run_at < lanes.looked.minus(SLACK) {
                lanes.lowered += 1;
                for low in &mut lanes.low {
                    *low = (*low).min(run_at);
                }
            }
        }
    }

    pub(crate) fn forget(&self) {
        self.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(1);
    const KINDS: [KindId; 1] = [KindId(1)];

    #[test]
    fn an_empty_claim_raises_every_lane_and_a_late_job_lowers_them() {
        let hints = Hints::default();
        let start = hints.start(QUEUE, &KINDS);
        hints.raise(QUEUE, &KINDS, &start, Time(9_000_000), false, &[]);
        assert_eq!(hints.start(QUEUE, &KINDS).low, [Time(8_000_000); LANES]);
        hints.lower(QUEUE, Time(3));
        assert_eq!(hints.start(QUEUE, &KINDS).low, [Time(3); LANES]);
    }

    #[test]
    fn a_claim_under_way_does_not_undo_a_lowering() {
        let hints = Hints::default();
        let start = hints.start(QUEUE, &KINDS);
        hints.raise(QUEUE, &KINDS, &start, Time(9_000_000), false, &[]);
        let start = hints.start(QUEUE, &KINDS);
        hints.lower(QUEUE, Time(3));
        hints.raise(QUEUE, &KINDS, &start, Time(99_000_000), false, &[]);
        assert_eq!(hints.start(QUEUE, &KINDS).low, [Time(3); LANES]);
    }
}
