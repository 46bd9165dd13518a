//! Counts what this worker finished, per minute and kind, for the roll-ups that statistics read.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::store::{LATENCY_BUCKETS, Rollup, latency_bucket};
use windlass_core::{JobState, KindId, LeasedJob, QueueId, Time, Verdict};

const MINUTE_MICROS: i64 = 60_000_000;

#[derive(Default)]
pub(crate) struct Tally {
    counts: HashMap<(i64, QueueId, KindId), Rollup>,
}

impl Tally {
    pub(crate) fn count(&mut self, job: &LeasedJob, verdict: &Verdict, ended_at: Time, ran: Duration) {
        let minute = ended_at.0 - ended_at.0.rem_euclid(MINUTE_MICROS);
        let rollup = self.counts.entry((minute, job.queue, job.kind)).or_insert_with(|| Rollup {
            minute: Time(minute),
            queue: job.queue,
            kind: job.kind,
            completed: 0,
            retried: 0,
            dead: 0,
            latency: vec![0; LATENCY_BUCKETS],
            run: Duration::ZERO,
        });
        rollup.run += ran;
        match verdict {
            Verdict::Return(_) => rollup.retried += 1,
            Verdict::End { state, .. } => {
                match state {
                    JobState::Completed => rollup.completed += 1,
                    state if state.is_dead() => rollup.dead += 1,
                    _ => return,
                }
                rollup.latency[latency_bucket(ended_at.since(job.run_at))] += 1;
            }
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Rollup> {
        self.counts.drain().map(|(_, rollup)| rollup).collect()
    }
}

const CLAIMS_KEPT: usize = 4_096;

/// How long the newest claims took, for whoever watches the worker.
#[derive(Clone, Default)]
pub(crate) struct ClaimTimes {
    newest: Arc<Mutex<VecDeque<Duration>>>,
}

impl ClaimTimes {
    pub(crate) fn put(&self, took: Duration) {
        if let Ok(mut newest) = self.newest.lock() {
            if newest.len() == CLAIMS_KEPT {
                newest.pop_front();
            }
            newest.push_back(took);
        }
    }

    pub(crate) fn take(&self) -> Vec<Duration> {
        self.newest.lock().map(|mut newest| newest.drain(..).collect()).unwrap_or_default()
    }
}
