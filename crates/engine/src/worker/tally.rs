//! Counts what became of this worker's runs, per minute and kind, for the roll-ups that statistics read.
//!
//! Owns the counts between two appends, and knowing which jobs completed themselves. Counts what the store answered,
//! never what was asked of it. Never counts a dead worker's jobs: the sweeper that takes them does.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::store::{Counted, Rollup};
use windlass_core::{JobId, KindId, LeasedJob, QueueId, Settlement, Time, Token};

/// What statistics want to know of a run that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    kind: KindId,
    run_at: Time,
    ended_at: Time,
    took: Duration,
}

impl Ran {
    pub(crate) fn new(job: &LeasedJob, ended_at: Time, took: Duration) -> Ran {
        Ran { kind: job.kind, run_at: job.run_at, ended_at, took }
    }
}

#[derive(Default)]
pub(crate) struct Tally {
    counts: HashMap<(Time, QueueId, KindId), Rollup>,
}

impl Tally {
    pub(crate) fn count(&mut self, queue: QueueId, ran: &Ran, counted: Counted) {
        let fresh = Rollup::new(ran.ended_at, queue, ran.kind);
        let rollup = self.counts.entry((fresh.minute, queue, ran.kind)).or_insert(fresh);
        rollup.count(counted, ran.ended_at.since(ran.run_at), ran.took);
    }

    pub(crate) fn take(&mut self) -> Vec<Rollup> {
        self.counts.drain().map(|(_, rollup)| rollup).collect()
    }
}

/// Runs whose handler settled them in a transaction of its own. Whether that was committed shows when the worker
/// settles them too: a lease that is still there was rolled back.
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

    /// Those of the batch, forgotten here.
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
