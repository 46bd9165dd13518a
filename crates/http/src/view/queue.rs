//! A queue with its figures, and all of them together.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use windlass_core::scale::{Load, desired_workers};
use windlass_core::store::{DEPTH_SHOWN, LATENCY_BUCKETS, QueueState, WorkerRow, latency_quantile};
use windlass_core::{QueueId, Store, StoreError, Time};

use super::Stamp;
use crate::shape::shape;

const HOUR: Duration = Duration::from_secs(3_600);
const LATELY: Duration = Duration::from_secs(300);

shape! {
    /// A queue (family) with its figures.
    pub struct QueueView as "Queue" {
        pub name: String,
        /// Default priority of its jobs, 0 is most urgent.
        pub priority: u8,
        pub paused: bool,
        /// Jobs one worker process runs at once; with bounds, what it starts with.
        pub concurrency: u32,
        /// Jobs all worker processes together run at once; null is no bound.
        pub global_concurrency: Option<u32>,
        /// Between which each worker moves its concurrency by itself; null keeps it. The workers say where they are.
        pub concurrency_min: Option<u32>,
        pub concurrency_max: Option<u32>,
        /// What each of its jobs holds while it runs, unless its kind names something else.
        pub resource: Option<String>,
        /// How many of the resource one worker process has.
        pub permits: Option<u32>,
        pub cadence_seconds: f64,
        /// Jobs that are due.
        pub depth: u64,
        /// The depth is at least this; no big table is counted.
        pub depth_is_capped: bool,
        pub running: u64,
        /// Jobs whose time lies ahead.
        pub scheduled: u64,
        /// How long the oldest due job has been due.
        pub oldest_age_seconds: Option<f64>,
        /// 95 % of the jobs of the last hour took at most this from due to finished; the upper bound of a bucket.
        pub p95_seconds: Option<f64>,
        /// What the figure before should not exceed; null is best effort.
        pub sla_seconds: Option<f64>,
        /// Jobs due for longer get a quarter of the slots whatever their priority; null is never.
        pub boost_after_seconds: Option<f64>,
        /// Waiting jobs above which enqueues are refused.
        pub depth_cap: Option<u64>,
        pub owner: String,
        pub colour: String,
        /// Worker processes that would be through with what is due within half the SLA and keep up with what comes in.
        pub desired_workers: u64,
    }
}

impl QueueView {
    pub fn new(queue: &QueueState, measured: Option<&Measured>) -> QueueView {
        let resource = queue.spec.resource.as_ref();
        let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64());
        QueueView {
            name: queue.spec.name.clone(),
            priority: queue.spec.priority,
            paused: queue.paused,
            concurrency: queue.spec.concurrency,
            global_concurrency: queue.spec.global_concurrency,
            concurrency_min: queue.spec.bounds.map(|bounds| bounds.min),
            concurrency_max: queue.spec.bounds.map(|bounds| bounds.max),
            resource: resource.map(|resource| resource.name.clone()),
            permits: resource.and_then(|resource| resource.permits),
            cadence_seconds: queue.spec.cadence.as_secs_f64(),
            depth: queue.depth,
            depth_is_capped: queue.depth >= DEPTH_SHOWN,
            running: queue.running,
            scheduled: queue.scheduled,
            oldest_age_seconds: seconds(queue.oldest),
            p95_seconds: seconds(measured.and_then(|measured| measured.p95)),
            sla_seconds: seconds(queue.spec.sla),
            boost_after_seconds: seconds(queue.spec.boost_after),
            depth_cap: queue.spec.depth_cap,
            owner: queue.spec.owner.clone(),
            colour: queue.spec.colour.clone(),
            desired_workers: desired(queue, measured),
        }
    }
}

pub(crate) fn desired(queue: &QueueState, measured: Option<&Measured>) -> u64 {
    let spec = &queue.spec;
    desired_workers(&Load {
        paused: queue.paused,
        backlog: queue.depth,
        running: queue.running,
        // What one process can do when it has to.
        concurrency: spec.bounds.map_or(spec.concurrency, |bounds| bounds.max),
        sla: spec.sla,
        workers: measured.map_or(0, |measured| measured.workers),
        attempts_per_s: measured.map_or(0.0, |measured| measured.attempts_per_s),
        mean_run: measured.and_then(|measured| measured.mean_run),
    })
}

shape! {
    /// Every queue at one moment.
    pub struct StatsView as "Stats" {
        pub at: Stamp,
        pub queues: Vec<QueueView>,
        pub workers: u64,
        /// Resources of all workers together.
        pub resources: Vec<ResourceTotal>,
        /// Entities whose newest content is not in the index yet; null where nothing is indexed here.
        pub pending_entities: Option<u64>,
        pub indexed_entities: Option<u64>,
    }
}

shape! {
    /// A resource over all worker processes.
    pub struct ResourceTotal as "ResourceTotal" {
        pub resource: String,
        /// Worker processes that have it.
        pub workers: u64,
        pub permits: u64,
        pub in_use: u64,
        pub free: u64,
    }
}

impl ResourceTotal {
    /// By name.
    pub fn of(workers: &[WorkerRow]) -> Vec<ResourceTotal> {
        let mut totals: BTreeMap<&str, ResourceTotal> = BTreeMap::new();
        for used in workers.iter().flat_map(|worker| &worker.resources) {
            let resource = used.resource.clone();
            let none = ResourceTotal { resource, workers: 0, permits: 0, in_use: 0, free: 0 };
            let total = totals.entry(&used.resource).or_insert(none);
            total.workers += 1;
            total.permits += u64::from(used.permits);
            total.in_use += used.in_use;
            total.free += u64::from(used.permits).saturating_sub(used.in_use);
        }
        totals.into_values().collect()
    }
}

/// What the workers counted of a queue lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Due-to-finished of the last hour; an upper bound of the bucket.
    pub p95: Option<Duration>,
    /// Of the last minutes, as everything below.
    pub attempts_per_s: f64,
    pub mean_run: Option<Duration>,
    /// Worker processes that serve it now.
    pub workers: u64,
}

/// From the minutes the workers counted, and the workers alive now.
pub async fn measure(store: &dyn Store) -> Result<HashMap<QueueId, Measured>, StoreError> {
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
