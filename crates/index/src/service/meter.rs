//! What this process indexed since it started: the figures a scraper reads.
//!
//! Owns counters and histograms in memory. Never asks the store: what other processes did is theirs to tell.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windlass_core::Strategy;
use windlass_engine::meter::Histogram;

#[derive(Default)]
pub struct Meter {
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    attempts: BTreeMap<(String, Strategy), Attempts>,
    searchable: BTreeMap<Strategy, Histogram>,
}

/// Tries to index entities of one type in one way: each ends with the vector written, or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempts {
    pub succeeded: u64,
    pub failed: u64,
    /// Of all of them. What was embedded together took its time together.
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

    /// By type and strategy.
    pub fn attempts(&self) -> Vec<(String, Strategy, Attempts)> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let each = counted.attempts.iter();
        each.map(|((name, strategy), attempts)| (name.clone(), *strategy, attempts.clone())).collect()
    }

    /// From an entity's write to the commit of its vector. Of sync, which is one commit, from the call to that.
    pub fn write_to_searchable(&self) -> Vec<(Strategy, Histogram)> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.searchable.iter().map(|(strategy, times)| (*strategy, times.clone())).collect()
    }
}
