//! Counts how this worker's runs ended, per minute and kind, for the rollups that statistics read.
//!
//! Counts what the store answered, not what it was asked. A dead worker's jobs are counted by the sweeper that takes
//! them back. Also keeps which runs were settled by their own handler, and how long claims took.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::store::{Counted, Rollup};
use windlass_core::{JobId, KindId, LeasedJob, QueueId, Settlement, Time, Token};

/// What statistics need of a run that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunStats {
    kind: KindId,
    run_at: Time,
    ended_at: Time,
    took: Duration,
}

impl RunStats {
    pub(crate) fn new(job: &LeasedJob, ended_at: Time, took: Duration) -> RunStats {
        RunStats { kind: job.kind, run_at: job.run_at, ended_at, took }
    }
}

#[derive(Default)]
pub(crate) struct Tally {
    counts: HashMap<(Time, QueueId, KindId), Rollup>,
}

impl Tally {
    pub(crate) fn count(&mut self, queue: QueueId, stats: &RunStats, counted: Counted) {
        let fresh = Rollup::new(stats.ended_at, queue, stats.kind);
        let rollup = self.counts.entry((fresh.minute, queue, stats.kind)).or_insert(fresh);
        rollup.count(counted, stats.ended_at.since(stats.run_at), stats.took);
    }

    pub(crate) fn take(&mut self) -> Vec<Rollup> {
        self.counts.drain().map(|(_, rollup)| rollup).collect()
    }
}

/// Runs whose handler settled them in its own transaction. The worker settles them too, which tells whether that
/// transaction was committed: if it was rolled back, the lease is still there.
#[derive(Clone, Default)]
pub(crate) struct SettledInside {
    runs: Arc<Mutex<HashSet<(JobId, Token)>>>,
}

impl SettledInside {
    pub(crate) fn put(&self, job: &LeasedJob) {
        if let Ok(mut runs) = self.runs.lock() {
            runs.insert((job.id, job.token));
        }
    }

    /// Removes and returns those of the batch.
    pub(crate) fn take<'a>(&self, batch: impl Iterator<Item = &'a Settlement>) -> HashSet<(JobId, Token)> {
        match self.runs.lock() {
            Ok(runs) if runs.is_empty() => HashSet::new(),
            Ok(mut runs) => batch.filter_map(|s| runs.take(&(s.id, s.token))).collect(),
            Err(_) => HashSet::new(),
        }
    }

    pub(crate) fn clear(&self) {
        if let Ok(mut runs) = self.runs.lock() {
            runs.clear();
        }
    }
}

const CLAIMS_KEPT: usize = 4_096;

/// How long the newest claims took, for benchmarks.
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
