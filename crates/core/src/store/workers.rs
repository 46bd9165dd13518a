//! Questions and answers about workers, queues and what is due.

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
    /// One per question about a queue that exists, in the order asked.
    pub queues: Vec<QueueDue>,
    /// Of the kinds asked about, those that have any, by number.
    pub limits: Vec<KindLimits>,
    /// When the next schedule is due; one that is paused is not.
    pub next_tick: Option<Time>,
    /// Jobs leased by the asking worker that somebody wants cancelled.
    pub cancel: Vec<JobId>,
}

/// One queue in the floor query. Only waiting jobs of the kinds asked about count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDue {
    /// The place of the question this answers.
    pub asked: usize,
    pub queue: QueueId,
    /// The earliest `run_at`; due when not after [`Poll::now`].
    pub next_due: Option<Time>,
    /// A suspect waits to be run alone.
    pub suspect: bool,
    pub paused: bool,
    pub concurrency: u32,
    /// Claims get no more than is left of it; the end of each lease makes room.
    pub global_concurrency: Option<u32>,
    pub bounds: Option<Bounds>,
    pub boost_after: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct QueueState {
    pub id: QueueId,
    /// The figures in force: configuration, overlaid by what an operator set live.
    pub spec: QueueSpec,
    pub paused: bool,
    /// Leased jobs.
    pub running: u64,
    /// Due jobs, counted no further than [`DEPTH_SHOWN`].
    pub depth: u64,
    /// Jobs whose `run_at` lies ahead, counted no further than [`DEPTH_SHOWN`].
    pub scheduled: u64,
    /// How long the oldest due job has been due.
    pub oldest: Option<Duration>,
}

/// No list or gauge counts waiting jobs further than this.
pub const DEPTH_SHOWN: u64 = 10_000;

/// Dead letters and failed jobs are shown as counted among the newest so many of all queues.
pub const DEAD_SHOWN: u64 = 10_000;

/// Jobs of one queue that nobody will run again by themselves.
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
    /// How long the worker may be silent.
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
    /// Runs at once per queue, as the worker said last.
    pub concurrency: Vec<(QueueId, u32)>,
    pub resources: Vec<ResourceUse>,
}

/// A worker as the sweeper sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    pub worker: WorkerId,
    /// Grows with each heartbeat.
    pub beats: i64,
    pub lease: Duration,
    /// The database's clock says the lease is over.
    pub expired: bool,
    /// Proof of death that needs no clock: the incarnation's file lock is free (SQLite).
    pub gone: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    pub suspects: u64,
    /// One by one, because no worker is left to count them.
    pub dead_letters: Vec<DeadLetter>,
    pub cancelled: u64,
    pub superseded: u64,
}

/// A job whose last crash was one too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: JobId,
    pub queue: QueueId,
    pub kind: KindId,
    pub run_at: Time,
    pub ended_at: Time,
}

/// What one settled attempt counts as. Snoozed, handed back, cancelled and superseded ones count as nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Completed,
    Retried,
    Dead,
}

impl Counted {
    /// From what was asked and what the store answered: a stale settlement wrote nothing.
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

    /// From what stands in the attempt's row.
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

/// What was counted of one kind during one minute, by a worker or by the sweeper that took back a dead one's jobs.
/// Appended, never updated.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollup {
    /// Start of the minute.
    pub minute: Time,
    pub queue: QueueId,
    pub kind: KindId,
    pub completed: u64,
    pub retried: u64,
    pub dead: u64,
    /// Due-to-finished of finished jobs: counts per bucket, [`latency_bucket`].
    pub latency: Vec<u32>,
    /// Sum of the handler's own time in the attempts counted here.
    pub run: Duration,
}

const MINUTE_MICROS: i64 = 60_000_000;

impl Rollup {
    /// Of the minute that holds `at`, with nothing counted yet.
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

    /// `latency` is due to finished; a retried job has none yet.
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

/// Upper bound of the bucket that holds the given share of `counts`; `None` when there are none.
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
    fn only_what_was_written_counts_and_as_what_it_says() {
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
