//! Hints: the `run_at` from which a claim has to scan, and which queues are limited.
//!
//! Claimed rows leave dead index entries at the low end of each priority until vacuum removes them, which it cannot do
//! while another transaction holds a snapshot. A hint starts the scan above them. It keeps a second of slack for late
//! commits, and anything that puts a job below it lowers it. Claims and polls also scan from the bottom once a second,
//! or less often where that takes long: at most a fiftieth of the time. So an unannounced job is missed for at most a
//! second on a healthy database.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use windlass_core::{KindId, LeasedJob, QueueId, Time};

use crate::schedule::floor::Floor;

pub(crate) const PRIORITIES: usize = 11;
const SLACK: Duration = Duration::from_secs(1);
const FULL_SCAN: Duration = Duration::from_secs(1);
/// Before any job's time.
pub(crate) const BOTTOM: Time = Time(0);
/// After any job's time: nothing is scanned.
pub(crate) const NEVER: Time = Time(i64::MAX);

/// Queues that had a global concurrency when this process last checked. Decides which statement is tried first, and
/// whether a settlement makes room for waiting jobs.
#[derive(Default)]
pub(crate) struct Noted {
    queues: RwLock<HashSet<QueueId>>,
}

impl Noted {
    pub(crate) fn contains(&self, queue: QueueId) -> bool {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).contains(&queue)
    }

    pub(crate) fn set(&self, queue: QueueId, is: bool) {
        if self.contains(queue) == is {
            return;
        }
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        if is {
            queues.insert(queue)
        } else {
            queues.remove(&queue)
        };
    }
}

/// Workers with different kinds skip different rows, so there are hints for each set of kinds.
type Key = (QueueId, Vec<KindId>);

#[derive(Default)]
pub(crate) struct Hints {
    marks: Mutex<HashMap<Key, Marks>>,
    /// The same for schedules.
    pub(crate) ticks: Floor,
}

struct Marks {
    low: Low,
    /// When the next claim scans from the bottom.
    full_scan: Instant,
    /// When the next poll does. Kept per set of kinds, so that each worker of a process gets its full scans.
    poll_scan: Instant,
    /// Grows when a mark is lowered, so that a concurrent claim does not raise it again.
    lowered: u64,
    /// The latest time that a claim scanned up to. A job before it came late, whatever the marks are now.
    looked: Time,
}

impl Marks {
    fn new(now: Instant) -> Marks {
        Marks { low: Low::BOTTOM, full_scan: now, poll_scan: now, lowered: 0, looked: BOTTOM }
    }

    fn lower(&mut self, run_at: Time) {
        if run_at < self.looked.minus(SLACK) {
            self.lowered += 1;
            for low in self.low.ready.iter_mut().chain([&mut self.low.checks]) {
                *low = (*low).min(run_at);
            }
        }
    }
}

/// Where scans start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Low {
    /// In `ready`, by priority.
    pub(crate) ready: [Time; PRIORITIES],
    /// In `lane_checks`.
    pub(crate) checks: Time,
}

impl Low {
    const BOTTOM: Low = Low { ready: [BOTTOM; PRIORITIES], checks: BOTTOM };

    /// For a scan of one priority that follows no lane checks.
    pub(crate) fn only(self, priority: u8) -> Low {
        let mut ready = [NEVER; PRIORITIES];
        let place = usize::from(priority);
        if let (Some(only), Some(low)) = (ready.get_mut(place), self.ready.get(place)) {
            *only = *low;
        }
        Low { ready, checks: NEVER }
    }
}

/// Where a claim started; returned with what it found.
pub(crate) struct Start {
    pub(crate) low: Low,
    lowered: u64,
    /// Set for a scan from the bottom.
    full_since: Option<Instant>,
}

/// What a claim saw at `now`.
pub(crate) struct Saw<'a> {
    pub(crate) now: Time,
    /// More jobs may be due than it took.
    pub(crate) full: bool,
    /// No lane check was due.
    pub(crate) no_checks: bool,
    pub(crate) taken: &'a [LeasedJob],
}

/// After a scan from the bottom the next one waits fifty times as long as it took.
fn pause_after(took: Duration) -> Duration {
    FULL_SCAN.max(took * 50)
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Marks>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current marks.
    pub(crate) fn low(&self, queue: QueueId, kinds: &[KindId]) -> Low {
        self.lock().get(&(queue, kinds.to_vec())).map_or(Low::BOTTOM, |marks| marks.low)
    }

    pub(crate) fn start(&self, queue: QueueId, kinds: &[KindId]) -> Start {
        let mut map = self.lock();
        let now = Instant::now();
        let marks = map.entry((queue, kinds.to_vec())).or_insert_with(|| Marks::new(now));
        if now < marks.full_scan {
            return Start { low: marks.low, lowered: marks.lowered, full_since: None };
        }
        // No other claim scans from the bottom until it is known how long this one takes.
        marks.full_scan = now + FULL_SCAN;
        Start { low: Low::BOTTOM, lowered: marks.lowered, full_since: Some(now) }
    }

    /// Where a claim starts that is repeated because a mark was lowered.
    pub(crate) fn start_again(&self, queue: QueueId, kinds: &[KindId], before: Start) -> Start {
        match before.full_since {
            Some(_) => before,
            None => self.start(queue, kinds),
        }
    }

    /// Where a poll at `now` starts, and whether it scans this queue from the bottom.
    pub(crate) fn start_poll(&self, queue: QueueId, kinds: &[KindId], now: Instant) -> (Low, bool) {
        let mut map = self.lock();
        let marks = map.entry((queue, kinds.to_vec())).or_insert_with(|| Marks::new(now));
        if now < marks.poll_scan {
            return (marks.low, false);
        }
        marks.poll_scan = now + FULL_SCAN / 2;
        (Low::BOTTOM, true)
    }

    /// A poll that scanned this queue from the bottom has ended.
    pub(crate) fn end_poll(&self, queue: QueueId, kinds: &[KindId], begun: Instant, ended: Instant) {
        if let Some(marks) = self.lock().get_mut(&(queue, kinds.to_vec())) {
            // A little less than the poll interval, so that every poll scans from the bottom while that is cheap.
            marks.poll_scan = ended + (FULL_SCAN / 2).max((ended - begun) * 50);
        }
    }

    /// Raises the marks by what one claim saw: priorities before the last one reached have no due jobs.
    pub(crate) fn raise(&self, queue: QueueId, kinds: &[KindId], start: &Start, saw: Saw<'_>) {
        let Saw { now, full, no_checks, taken } = saw;
        let mut map = self.lock();
        let Some(marks) = map.get_mut(&(queue, kinds.to_vec())) else { return };
        marks.looked = marks.looked.max(now);
        if let Some(since) = start.full_since {
            let ended = Instant::now();
            marks.full_scan = ended + pause_after(ended - since);
        }
        if marks.lowered != start.lowered {
            return;
        }
        let reached = match taken.last() {
            Some(last) if full => usize::from(last.priority),
            _ => PRIORITIES,
        };
        if start.full_since.is_some() && full {
            // More jobs may follow those that this claim took, and later priorities were not scanned.
            marks.low.ready[reached..].fill(BOTTOM);
        }
        if no_checks {
            marks.low.checks = marks.low.checks.max(now.minus(SLACK));
        }
        for (priority, low) in marks.low.ready.iter_mut().enumerate() {
            let seen = match (priority.cmp(&reached), taken.last()) {
                (std::cmp::Ordering::Less, _) => now,
                (std::cmp::Ordering::Equal, Some(last)) => last.run_at,
                _ => continue,
            };
            *low = (*low).max(seen.minus(SLACK));
        }
    }

    /// A job was put at `run_at`: lowers all marks of its queue to that.
    pub(crate) fn lower(&self, queue: QueueId, run_at: Time) {
        for ((of, _), marks) in self.lock().iter_mut() {
            if *of == queue {
                marks.lower(run_at);
            }
        }
    }

    /// The same when the kinds are known. Scans of other kinds keep their marks.
    pub(crate) fn lower_of(&self, queue: QueueId, kinds: &[KindId], run_at: Time) {
        if let Some(marks) = self.lock().get_mut(&(queue, kinds.to_vec())) {
            marks.lower(run_at);
        }
    }

    pub(crate) fn forget(&self) {
        self.lock().clear();
        self.ticks.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(1);
    const KINDS: [KindId; 1] = [KindId(1)];

    fn low(micros: i64) -> Low {
        Low { ready: [Time(micros); PRIORITIES], checks: Time(micros) }
    }

    fn nothing(micros: i64) -> Saw<'static> {
        Saw { now: Time(micros), full: false, no_checks: true, taken: &[] }
    }

    #[test]
    fn an_empty_claim_raises_every_mark_and_a_late_job_lowers_them() {
        let hints = Hints::default();
        let start = hints.start(QUEUE, &KINDS);
        hints.raise(QUEUE, &KINDS, &start, nothing(9_000_000));
        assert_eq!(hints.start(QUEUE, &KINDS).low, low(8_000_000));
        hints.lower(QUEUE, Time(3));
        assert_eq!(hints.start(QUEUE, &KINDS).low, low(3));
    }

    #[test]
    fn a_concurrent_claim_does_not_undo_a_lowering() {
        let hints = Hints::default();
        let start = hints.start(QUEUE, &KINDS);
        hints.raise(QUEUE, &KINDS, &start, nothing(9_000_000));
        let start = hints.start(QUEUE, &KINDS);
        hints.lower(QUEUE, Time(3));
        hints.raise(QUEUE, &KINDS, &start, nothing(99_000_000));
        assert_eq!(hints.start(QUEUE, &KINDS).low, low(3));
    }

    /// Jobs that wait for a limit must not be scanned by every claim of other kinds.
    #[test]
    fn a_poll_lowers_only_the_kinds_it_asked_about() {
        let (hints, others) = (Hints::default(), [KindId(2)]);
        for kinds in [&KINDS, &others] {
            let start = hints.start(QUEUE, kinds);
            hints.raise(QUEUE, kinds, &start, nothing(9_000_000));
        }
        hints.lower_of(QUEUE, &KINDS, Time(3));
        assert_eq!(hints.start(QUEUE, &KINDS).low, low(3));
        assert_eq!(hints.start(QUEUE, &others).low, low(8_000_000));
    }

    /// Workers of one process poll at the same rate; the one that always comes second needs full scans too.
    #[test]
    fn each_set_of_kinds_has_its_own_full_scans() {
        let hints = Hints::default();
        let start = hints.start(QUEUE, &KINDS);
        hints.raise(QUEUE, &KINDS, &start, nothing(9_000_000));
        let now = Instant::now();
        for second in 0..3 {
            let now = now + Duration::from_secs(second);
            let (start, full) = hints.start_poll(QUEUE, &KINDS, now);
            assert!(full && start == Low::BOTTOM, "second {second}");
            hints.end_poll(QUEUE, &KINDS, now, now + Duration::from_millis(1));
            assert!(hints.start_poll(QueueId(2), &KINDS, now).1, "another queue, second {second}");
            assert!(hints.start_poll(QUEUE, &[KindId(7)], now).1, "other kinds, second {second}");
            assert_eq!(hints.start_poll(QUEUE, &KINDS, now), (low(8_000_000), false), "no second full scan");
        }
        let late = now + Duration::from_secs(9);
        hints.end_poll(QUEUE, &KINDS, late, late + Duration::from_secs(1));
        assert!(
            !hints.start_poll(QUEUE, &KINDS, late + Duration::from_secs(40)).1,
            "a slow scan is followed by a longer pause"
        );
    }
}
