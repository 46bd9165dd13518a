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
}

struct Lanes {
    low: [Time; LANES],
    /// When the next claim starts from the bottom.
    full_scan: Instant,
    /// When the next poll does; kept here and not once for all, so that workers of one process with other queues each
    /// have theirs.
    poll_scan: Instant,
    /// Grows when something lowered a lane, so that a claim under way does not raise it again.
    lowered: u64,
    /// The latest time a claim looked up to; a job below it came late, whatever the lanes say now.
    looked: Time,
}

impl Lanes {
    fn new(now: Instant) -> Lanes {
        Lanes { low: [BOTTOM; LANES], full_scan: now, poll_scan: now, lowered: 0, looked: BOTTOM }
    }
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
        let lanes = map.entry((queue, kinds.to_vec())).or_insert_with(|| Lanes::new(now));
        if now < lanes.full_scan {
            return Start { low: lanes.low, lowered: lanes.lowered, full_since: None };
        }
        // Until it is known how long this one takes, no other claim does the same.
        lanes.full_scan = now + FULL_SCAN;
        Start { low: [BOTTOM; LANES], lowered: lanes.lowered, full_since: Some(now) }
    }

    /// Where a poll at `now` starts, and whether it is this queue's turn for a look from the bottom.
    pub(crate) fn start_poll(&self, queue: QueueId, kinds: &[KindId], now: Instant) -> ([Time; LANES], bool) {
        let mut map = self.lock();
        let lanes = map.entry((queue, kinds.to_vec())).or_insert_with(|| Lanes::new(now));
        if now < lanes.poll_scan {
            return (lanes.low, false);
        }
        lanes.poll_scan = now + FULL_SCAN / 2;
        ([BOTTOM; LANES], true)
    }

    /// A poll that looked at this queue from the bottom is over.
    pub(crate) fn end_poll(&self, queue: QueueId, kinds: &[KindId], begun: Instant, ended: Instant) {
        if let Some(lanes) = self.lock().get_mut(&(queue, kinds.to_vec())) {
            // A poll comes every second; a little less than that lets each be a full one while they are cheap.
            lanes.poll_scan = ended + (FULL_SCAN / 2).max((ended - begun) * 50);
        }
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

    /// Workers of one process poll with the same rhythm: the one that always comes second must have its turn too.
    #[test]
    fn each_set_of_kinds_is_polled_from_the_bottom_in_its_own_time() {
        let hints = Hints::default();
        let start = hints.start(QUEUE, &KINDS);
        hints.raise(QUEUE, &KINDS, &start, Time(9_000_000), false, &[]);
        let now = Instant::now();
        for second in 0..3 {
            let now = now + Duration::from_secs(second);
            let (low, full) = hints.start_poll(QUEUE, &KINDS, now);
            assert!(full && low == [BOTTOM; LANES], "second {second}");
            hints.end_poll(QUEUE, &KINDS, now, now + Duration::from_millis(1));
            assert!(hints.start_poll(QueueId(2), &KINDS, now).1, "another queue, second {second}");
            assert!(hints.start_poll(QUEUE, &[KindId(7)], now).1, "other kinds, second {second}");
            assert_eq!(
                hints.start_poll(QUEUE, &KINDS, now),
                ([Time(8_000_000); LANES], false),
                "no second one"
            );
        }
        let late = now + Duration::from_secs(9);
        hints.end_poll(QUEUE, &KINDS, late, late + Duration::from_secs(1));
        assert!(
            !hints.start_poll(QUEUE, &KINDS, late + Duration::from_secs(40)).1,
            "a slow one rests longer"
        );
    }
}
