//! Statistics of each queue for the last hour, from the workers' per-minute counts.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::store::{LATENCY_BUCKETS, Rollup, latency_quantile};
use windlass_core::{QueueId, Time};

pub(super) const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);
/// Minutes in the chart of a queue.
const MINUTES: usize = 30;
/// How often workers write their counts, in seconds.
const WRITTEN: f64 = 10.0;

/// What workers counted for one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) p95: Option<Duration>,
    /// In the current minute.
    pub(super) completed_per_s: f64,
    pub(super) failed_per_s: f64,
    pub(super) by_minute: Vec<u64>,
    /// In the last hour.
    pub(super) completed: u64,
    pub(super) failed: u64,
}

pub(super) fn counts(rollups: &[Rollup], now: Time) -> HashMap<QueueId, Counts> {
    let micros = i64::try_from(MINUTE.as_micros()).unwrap_or(i64::MAX);
    let this_minute = now.0.div_euclid(micros);
    // A minute that has just begun has no counts yet.
    let recent = ((now.0 - this_minute * micros) as f64 / 1e6).max(WRITTEN);
    let mut latency: HashMap<QueueId, Vec<u64>> = HashMap::new();
    let mut all: HashMap<QueueId, Counts> = HashMap::new();
    for rollup in rollups {
        let buckets = latency.entry(rollup.queue).or_insert_with(|| vec![0; LATENCY_BUCKETS]);
        for (bucket, count) in buckets.iter_mut().zip(&rollup.latency) {
            *bucket += u64::from(*count);
        }
        let counts = all.entry(rollup.queue).or_default();
        counts.by_minute.resize(MINUTES, 0);
        counts.completed += rollup.completed;
        counts.failed += rollup.retried + rollup.dead;
        let back = this_minute - rollup.minute.0.div_euclid(micros);
        if let Some(slot) = usize::try_from(back).ok().and_then(|back| (MINUTES - 1).checked_sub(back)) {
            counts.by_minute[slot] += rollup.completed;
        }
        if back <= 0 {
            counts.completed_per_s += rollup.completed as f64 / recent;
            counts.failed_per_s += (rollup.retried + rollup.dead) as f64 / recent;
        }
    }
    for (queue, buckets) in latency {
        if let Some(counts) = all.get_mut(&queue) {
            counts.p95 = latency_quantile(&buckets, 0.95);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::KindId;

    #[test]
    fn counts_cover_the_current_and_previous_minutes() {
        let minute = |n: i64| Time(n * 60_000_000);
        let rollup = |at, completed| Rollup { completed, dead: 1, ..Rollup::new(at, QueueId(1), KindId(1)) };
        let rollups =
            [rollup(minute(100), 30), rollup(minute(99), 60), rollup(minute(98), 600), rollup(minute(60), 9)];
        let counts = &counts(&rollups, Time(minute(100).0 + 30_000_000))[&QueueId(1)];
        assert_eq!(counts.completed_per_s, 1.0);
        assert!((counts.failed_per_s - 1.0 / 30.0).abs() < 1e-9);
        assert_eq!(counts.by_minute[MINUTES - 3..], [600, 60, 30]);
        assert_eq!(counts.by_minute.iter().sum::<u64>(), 690, "older minutes are not in the chart");
        assert_eq!((counts.completed, counts.failed), (699, 4));
    }
}
