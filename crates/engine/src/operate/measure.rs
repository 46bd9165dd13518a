//! Recent figures of each queue, and how many workers it needs.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::scale::{Load, desired_workers};
use windlass_core::store::{LATENCY_BUCKETS, QueueState, latency_quantile};
use windlass_core::{QueueId, Store, StoreError, Time};

use crate::Client;

const HOUR: Duration = Duration::from_secs(3_600);
const LATELY: Duration = Duration::from_secs(300);

impl Client {
    /// By queue; queues without recent runs are left out.
    pub async fn measured(&self) -> Result<HashMap<QueueId, Measured>, StoreError> {
        measure(self.store().as_ref()).await
    }
}

/// Worker processes needed to finish what is due within half the SLA and to keep up with new jobs.
pub fn desired(queue: &QueueState, measured: Option<&Measured>) -> u64 {
    let spec = &queue.spec;
    desired_workers(&Load {
        paused: queue.paused,
        backlog: queue.depth,
        running: queue.running,
        // The most that one process can run.
        concurrency: spec.bounds.map_or(spec.concurrency, |bounds| bounds.max),
        sla: spec.sla,
        workers: measured.map_or(0, |measured| measured.workers),
        attempts_per_s: measured.map_or(0.0, |measured| measured.attempts_per_s),
        mean_run: measured.and_then(|measured| measured.mean_run),
    })
}

/// Recent figures of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Due-to-finished of the last hour, as the upper bound of its bucket.
    pub p95: Option<Duration>,
    /// Of the last five minutes, as everything below.
    pub attempts_per_s: f64,
    pub mean_run: Option<Duration>,
    /// Live worker processes that serve it.
    pub workers: u64,
}

/// From the rollups of the last hour and the live workers.
async fn measure(store: &dyn Store) -> Result<HashMap<QueueId, Measured>, StoreError> {
    let now = store.now().await?;
    let lately = now.minus(LATELY);
    let mut sums: HashMap<QueueId, Sums> = HashMap::new();
    for rollup in store.rollups(now.minus(HOUR)).await? {
        let sums = sums.entry(rollup.queue).or_default();
        for (bucket, count) in sums.latency.iter_mut().zip(&rollup.latency) {
            *bucket += u64::from(*count);
        }
        if rollup.minute >= lately {
            sums.attempts += rollup.completed + rollup.retried + rollup.dead;
            sums.run += rollup.run;
            sums.since = Some(sums.since.map_or(rollup.minute, |since| since.min(rollup.minute)));
        }
    }
    for worker in store.workers().await? {
        for queue in worker.queues {
            sums.entry(queue).or_default().workers += 1;
        }
    }
    Ok(sums.into_iter().map(|(queue, sums)| (queue, sums.measured(now))).collect())
}

struct Sums {
    latency: [u64; LATENCY_BUCKETS],
    attempts: u64,
    run: Duration,
    since: Option<Time>,
    workers: u64,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums { latency: [0; LATENCY_BUCKETS], attempts: 0, run: Duration::ZERO, since: None, workers: 0 }
    }
}

impl Sums {
    fn measured(&self, now: Time) -> Measured {
        let span = self.since.map_or(LATELY, |since| now.since(since)).max(Duration::from_secs(10));
        Measured {
            p95: latency_quantile(&self.latency, 0.95),
            attempts_per_s: self.attempts as f64 / span.as_secs_f64(),
            mean_run: (self.attempts > 0).then(|| self.run.div_f64(self.attempts as f64)),
            workers: self.workers,
        }
    }
}
