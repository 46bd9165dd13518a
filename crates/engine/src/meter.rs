//! Metrics of this process since it started: runs of its workers, alerts and refusals of budgets.
//!
//! In memory; never asks the store. Each process reports its own, except for alerts, which [`crate::AlertWatch`] also
//! brings from other processes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windlass_core::budget::{Alert, BudgetState, Level, Month};
use windlass_core::{KindId, QueueId, Time, Verdict};

/// Upper bounds in seconds; a last, open bucket follows.
pub const RUN_BUCKETS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];

#[derive(Default)]
pub struct Meter {
    runs: Mutex<HashMap<(QueueId, KindId, &'static str), Histogram>>,
    alerts: Mutex<Alerts>,
    /// By budget.
    refusals: Mutex<BTreeMap<(String, BudgetState), u64>>,
}

#[derive(Default)]
struct Alerts {
    /// Budget, month, percentage and time of each. A handful a month, so all are kept.
    known: HashSet<(String, Month, u16, Time)>,
    /// By budget.
    counts: BTreeMap<(String, Level), u64>,
}

impl Alerts {
    fn is_new(&mut self, alert: &Alert) -> bool {
        let Alert { budget, threshold, at, figures, .. } = alert;
        self.known.insert((budget.clone(), figures.month, threshold.percent, *at))
    }
}

/// Durations by the buckets of [`RUN_BUCKETS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Per bucket, not cumulative; the last one is open.
    pub buckets: [u64; RUN_BUCKETS.len() + 1],
    pub count: u64,
    pub time: Duration,
}

impl Histogram {
    pub fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = RUN_BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(RUN_BUCKETS.len());
        self.buckets[bucket] += 1;
        self.count += 1;
        self.time += took;
    }
}

#[derive(Clone, Debug)]
pub struct RunSeries {
    pub queue: QueueId,
    pub kind: KindId,
    /// As in the attempt's row: `completed`, `retry`, `dead_letter` …
    pub status: &'static str,
    pub runs: Histogram,
}

impl Meter {
    pub(crate) fn ran(&self, queue: QueueId, kind: KindId, verdict: &Verdict, took: Duration) {
        let status = match verdict {
            Verdict::End { state, .. } => state.name(),
            Verdict::Return(back) => back.why.name(),
        };
        let mut series = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        series.entry((queue, kind, status)).or_default().add(took);
    }

    /// Counts an alert; false when this process has counted it before.
    pub(crate) fn alerted(&self, alert: &Alert) -> bool {
        let mut alerts = self.alerts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = alerts.is_new(alert);
        if new {
            *alerts.counts.entry((alert.budget.clone(), alert.threshold.level)).or_default() += 1;
        }
        new
    }

    /// Remembers alerts that fired before this process started, without counting them.
    pub(crate) fn knows(&self, fired: &[Alert]) {
        let mut alerts = self.alerts.lock().unwrap_or_else(PoisonError::into_inner);
        for alert in fired {
            alerts.is_new(alert);
        }
    }

    pub(crate) fn refused(&self, budget: &str, state: BudgetState) {
        count(&self.refusals, (budget.to_owned(), state));
    }

    /// Alerts that fired since this process started, as far as it saw them, by budget and level.
    pub fn alerts(&self) -> BTreeMap<(String, Level), u64> {
        self.alerts.lock().unwrap_or_else(PoisonError::into_inner).counts.clone()
    }

    /// Refused calls of this process, by budget and its state.
    pub fn refusals(&self) -> BTreeMap<(String, BudgetState), u64> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sorted, so that each scrape has the same order.
    pub fn runs(&self) -> Vec<RunSeries> {
        let series = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<RunSeries> = series
            .iter()
            .map(|((queue, kind, status), runs)| RunSeries {
                queue: *queue,
                kind: *kind,
                status,
                runs: runs.clone(),
            })
            .collect();
        all.sort_by_key(|series| (series.queue, series.kind, series.status));
        all
    }
}

fn count<K: Ord>(counts: &Mutex<BTreeMap<K, u64>>, key: K) {
    *counts.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use windlass_core::JobState;

    use super::*;

    #[test]
    fn a_run_falls_into_the_first_bucket_that_holds_it() {
        let meter = Meter::default();
        let done = Verdict::End { state: JobState::Completed, result: None, error: None };
        for millis in [1, 2, 700_000] {
            meter.ran(QueueId(1), KindId(2), &done, Duration::from_millis(millis));
        }
        let series = meter.runs();
        assert_eq!((series.len(), series[0].status, series[0].runs.count), (1, "completed", 3));
        assert_eq!(series[0].runs.buckets[0], 1);
        assert_eq!(series[0].runs.buckets[1], 1);
        assert_eq!(series[0].runs.buckets[RUN_BUCKETS.len()], 1);
    }
}
