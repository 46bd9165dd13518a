//! Metrics of the indexing done by this process since it started.
//!
//! Owns counters and histograms in memory. Never reads the store: each process reports its own work.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windlass_core::Strategy;
use windlass_engine::meter::Histogram;

#[derive(Default)]
pub struct Meter {
    counted: Mutex<IndexCounters>,
}

#[derive(Default)]
struct IndexCounters {
    attempts: BTreeMap<(String, Strategy), Attempts>,
    searchable: BTreeMap<Strategy, Histogram>,
}

/// Attempts to index entities of one type with one strategy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempts {
    pub succeeded: u64,
    pub failed: u64,
    /// Duration of every attempt. Entities embedded in one batch each count the duration of the batch.
    pub took: Histogram,
}

impl Meter {
    pub(super) fn tried(&self, entity_type: &str, strategy: Strategy, success: bool, took: Duration) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let attempts = counted.attempts.entry((entity_type.to_owned(), strategy)).or_default();
        match success {
            true => attempts.succeeded += 1,
            false => attempts.failed += 1,
        }
        attempts.took.add(took);
    }

    pub(super) fn searchable(&self, strategy: Strategy, after: Duration) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.searchable.entry(strategy).or_default().add(after);
    }

    /// Attempts by type and strategy.
    pub fn attempts(&self) -> Vec<(String, Strategy, Attempts)> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let each = counted.attempts.iter();
        each.map(|((name, strategy), attempts)| (name.clone(), *strategy, attempts.clone())).collect()
    }

    /// Time from the write of an entity to the commit of its vector; for sync, from the call to the commit.
    pub fn write_to_searchable(&self) -> Vec<(Strategy, Histogram)> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.searchable.iter().map(|(strategy, times)| (*strategy, times.clone())).collect()
    }
}
