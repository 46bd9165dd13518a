//! What the workers of this process did, counted since it started: the figures a scraper reads.
//!
//! Owns counters and histograms in memory. Never asks the store: what other processes did is theirs to tell.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windlass_core::{KindId, QueueId, Verdict};

/// Upper bounds in seconds; a last, open bucket follows.
pub const RUN_BUCKETS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];

#[derive(Default)]
pub struct Meter {
    runs: Mutex<HashMap<(QueueId, KindId, &'static str), Runs>>,
}

/// Runs of one kind that ended one way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Per bucket, not cumulative; the last one is open.
    pub buckets: [u64; RUN_BUCKETS.len() + 1],
    pub count: u64,
    pub time: Duration,
}

#[derive(Clone, Debug)]
pub struct RunSeries {
    pub queue: QueueId,
    pub kind: KindId,
    /// The word of the attempt's row: `completed`, `retry`, `dead_letter` …
    pub status: &'static str,
    pub runs: Runs,
}

impl Meter {
    pub(crate) fn ran(&self, queue: QueueId, kind: KindId, verdict: &Verdict, took: Duration) {
        let status = match verdict {
            Verdict::End { state, .. } => state.name(),
            Verdict::Return(back) => back.why.name(),
        };
        let seconds = took.as_secs_f64();
        let bucket = RUN_BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(RUN_BUCKETS.len());
        let mut series = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = series.entry((queue, kind, status)).or_default();
        runs.buckets[bucket] += 1;
        runs.count += 1;
        runs.time += took;
    }

    /// In a steady order.
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
