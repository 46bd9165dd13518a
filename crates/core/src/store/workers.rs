//! Parameters and results about workers, queues and due jobs.

use std::time::Duration;

use super::{KindLimits, ResourceUse, Settled};
use crate::outcome::ReturnWhy;
use crate::scale::Bounds;
use crate::{JobId, JobState, KindId, QueueId, QueueSpec, Time, Verdict, WorkerId};

/// A queue and those of its kinds that a worker handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueKinds {
    pub queue: QueueId,
    pub kinds: Vec<KindId>,
}

#[derive(Clone, Debug)]
pub struct Poll {
    pub now: Time,
    /// One per [`QueueKinds`] whose queue exists, in that order.
    pub queues: Vec<QueueDue>,
    /// Limits of the kinds polled for, by kind id. Kinds without any are left out.
    pub limits: Vec<KindLimits>,
    /// When the next schedule is due. Paused ones do not count.
    pub next_tick: Option<Time>,
    /// Jobs leased by this worker that are to be cancelled.
    pub cancel: Vec<JobId>,
}

/// One queue's part of [`Poll`]. Counts only waiting jobs of the kinds polled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDue {
    /// Index of the [`QueueKinds`] this belongs to.
    pub asked: usize,
    pub queue: QueueId,
    /// The earliest `run_at`; due when not after [`Poll::now`].
    pub next_due: Option<Time>,
    /// Jobs of [`Level::Ordinary`](crate::sweep::Level) are in `next_due`.
    pub suspects: SuspectsDue,
    pub paused: bool,
    pub concurrency: u32,
    /// Bounds the leases of all workers together. Each lease that ends makes room.
    pub global_concurrency: Option<u32>,
    pub bounds: Option<Bounds>,
    pub boost_after: Option<Duration>,
}

/// Which levels of suspicion are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuspectsDue {
    /// Level 1. While one is due, nothing is leased ahead of a free slot.
    pub first: bool,
    pub second: bool,
    pub trial: bool,
}

#[derive(Clone, Debug)]
pub struct QueueState {
    pub id: QueueId,
    /// The values in force: a live value overrides the configured one.
    pub spec: QueueSpec,
    pub paused: bool,
    /// Leased jobs.
    pub running: u64,
    /// Due jobs, counted up to [`DEPTH_SHOWN`].
    pub depth: u64,
    /// Jobs whose `run_at` is in the future, counted up to [`DEPTH_SHOWN`].
    pub scheduled: u64,
    /// How long the oldest due job has been due.
    pub oldest: Option<Duration>,
}

/// Lists and gauges stop counting waiting jobs here.
pub const DEPTH_SHOWN: u64 = 10_000;

/// Failed jobs and dead letters are counted among this many of the newest.
pub const DEAD_SHOWN: u64 = 10_000;

/// Jobs of one queue that will not run again unless an operator retries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadCount {
    pub queue: QueueId,
    pub failed: u64,
    pub dead_letter: u64,
}

#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// For people: `host:pid`.
    pub label: String,
    pub queues: Vec<QueueId>,
    /// The worker is considered dead after this long without a heartbeat.
    pub lease: Duration,
}

#[derive(Clone, Debug)]
pub struct WorkerRow {
    pub id: WorkerId,
    pub label: String,
    pub queues: Vec<QueueId>,
    pub started_at: Time,
    pub heartbeat_at: Time,
    pub running: u64,
    /// Concurrency per queue, as last reported.
    pub concurrency: Vec<(QueueId, u32)>,
    pub resources: Vec<ResourceUse>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Jobs that returned to their queue.
    pub returned: u64,
    /// Listed, because the worker that would have counted them is dead.
    pub dead_letters: Vec<DeadLetter>,
    pub cancelled: u64,
    pub superseded: u64,
}

/// A job that crashed its process once too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: JobId,
    pub queue: QueueId,
    pub kind: KindId,
    pub run_at: Time,
    pub ended_at: Time,
}

/// How a settled attempt is counted. Attempts that were snoozed, handed back, cancelled or superseded are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Completed,
    Retried,
    Dead,
}

impl Counted {
    /// From the verdict and the store's response: a stale settlement wrote nothing.
    pub fn of(verdict: &Verdict, answer: Settled) -> Option<Counted> {
        match (answer, verdict) {
            (Settled::Accepted, Verdict::End { state: JobState::Completed, .. }) => Some(Counted::Completed),
            (Settled::Accepted, Verdict::End { state, .. }) if state.is_dead() => Some(Counted::Dead),
            (Settled::Accepted, Verdict::Return(back)) if back.why == ReturnWhy::Retry => {
                Some(Counted::Retried)
            }
            _ => None,
        }
    }

    /// From the outcome stored with the attempt.
    pub fn written(outcome: &str) -> Option<Counted> {
        if outcome == ReturnWhy::Retry.name() {
            return Some(Counted::Retried);
        }
        match outcome.parse::<JobState>().ok()? {
            JobState::Completed => Some(Counted::Completed),
            state if state.is_dead() => Some(Counted::Dead),
            _ => None,
        }
    }
}

/// Statistics of one kind in one minute, counted by a worker, or by the sweeper for a dead worker's jobs. Rows are
/// appended, never updated.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollup {
    /// Start of the minute.
    pub minute: Time,
    pub queue: QueueId,
    pub kind: KindId,
    pub completed: u64,
    pub retried: u64,
    pub dead: u64,
    /// Time from due to finished: counts per [`latency_bucket`].
    pub latency: Vec<u32>,
    /// Total handler time of these attempts.
    pub run: Duration,
}

const MINUTE_MICROS: i64 = 60_000_000;

impl Rollup {
    /// An empty one for the minute that contains `at`.
    pub fn new(at: Time, queue: QueueId, kind: KindId) -> Rollup {
        Rollup {
            minute: Time(at.0 - at.0.rem_euclid(MINUTE_MICROS)),
            queue,
            kind,
            completed: 0,
            retried: 0,
            dead: 0,
            latency: vec![0; LATENCY_BUCKETS],
            run: Duration::ZERO,
        }
    }

    /// `latency` is the time from due to finished; it is ignored for a retry.
    pub fn count(&mut self, counted: Counted, latency: Duration, ran: Duration) {
        self.run += ran;
        match counted {
            Counted::Retried => return self.retried += 1,
            Counted::Completed => self.completed += 1,
            Counted::Dead => self.dead += 1,
        }
        self.latency[latency_bucket(latency)] += 1;
    }
}

/// Buckets double from 1 ms; the last is open.
pub const LATENCY_BUCKETS: usize = 28;

pub fn latency_bucket(latency: Duration) -> usize {
    let millis = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
    (u64::BITS - millis.leading_zeros()).min(LATENCY_BUCKETS as u32 - 1) as usize
}

/// Upper bound of the bucket that contains the quantile `share`. `None` without counts.
pub fn latency_quantile(counts: &[u64], share: f64) -> Option<Duration> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let wanted = (total as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += count;
        if seen >= wanted {
            return Some(Duration::from_millis(1 << bucket.min(62)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_accepted_settlements_are_counted() {
        let end = |state| Verdict::End { state, result: None, error: None };
        let back = |why| {
            let run_at = crate::outcome::ReturnAt::Place(Time(0));
            Verdict::Return(crate::outcome::Return { why, attempts_used: 1, run_at, error: None })
        };
        let cases = [
            (end(JobState::Completed), JobState::Completed.name(), Some(Counted::Completed)),
            (end(JobState::Failed), JobState::Failed.name(), Some(Counted::Dead)),
            (end(JobState::DeadLetter), JobState::DeadLetter.name(), Some(Counted::Dead)),
            (end(JobState::Cancelled), JobState::Cancelled.name(), None),
            (back(ReturnWhy::Retry), ReturnWhy::Retry.name(), Some(Counted::Retried)),
            (back(ReturnWhy::Snooze), ReturnWhy::Snooze.name(), None),
            (back(ReturnWhy::HandBack), ReturnWhy::HandBack.name(), None),
        ];
        for (verdict, written, counted) in cases {
            assert_eq!(Counted::of(&verdict, Settled::Accepted), counted, "{written}");
            assert_eq!(Counted::written(written), counted, "{written}");
            for other in [Settled::Stale, Settled::Superseded, Settled::Cancelled] {
                assert_eq!(Counted::of(&verdict, other), None, "{written} answered with {other:?}");
            }
        }
    }

    #[test]
    fn latency_buckets_double_and_the_last_is_open() {
        let bucket = |ms| latency_bucket(Duration::from_millis(ms));
        assert_eq!([bucket(0), bucket(1), bucket(2), bucket(3), bucket(4)], [0, 1, 2, 2, 3]);
        assert_eq!(bucket(u64::MAX / 2), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn the_quantile_is_an_upper_bound() {
        let mut counts = vec![0u64; LATENCY_BUCKETS];
        for ms in 0..100u64 {
            counts[latency_bucket(Duration::from_millis(ms))] += 1;
        }
        assert_eq!(latency_quantile(&counts, 0.95), Some(Duration::from_millis(128)));
        assert_eq!(latency_quantile(&counts, 0.01), Some(Duration::from_millis(1)));
        assert_eq!(latency_quantile(&[0, 0], 0.95), None);
    }
}
