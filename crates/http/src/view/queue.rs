//! A queue with its statistics, and all queues together.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use windlass_core::store::{DEPTH_SHOWN, QueueState, WorkerRow};
use windlass_engine::operate::{Measured, desired};
use windlass_pack::{Schemas, Shape, shape};

use super::Stamp;

shape! {
    /// A queue (family) with its statistics.
    pub struct QueueView as "Queue" {
        pub name: String,
        /// Default priority of its jobs, 0 is most urgent.
        pub priority: u8,
        pub paused: bool,
        /// Jobs one worker process runs at once; with bounds, the starting value.
        pub concurrency: u32,
        /// Jobs all worker processes together run at once; null means no limit.
        pub global_concurrency: Option<u32>,
        /// Bounds within which each worker adjusts its concurrency; null keeps it fixed. Workers report their current
        /// value.
        pub concurrency_min: Option<u32>,
        pub concurrency_max: Option<u32>,
        /// What each of its jobs holds while it runs, unless its kind names another resource.
        pub resource: Option<String>,
        /// Permits of the resource per worker process.
        pub permits: Option<u32>,
        pub cadence_seconds: f64,
        /// Due jobs.
        pub depth: u64,
        /// True if the depth is only a lower bound, because counting stopped there.
        pub depth_is_capped: bool,
        pub running: u64,
        /// Jobs whose run_at is in the future.
        pub scheduled: u64,
        /// How long the oldest due job has been due.
        pub oldest_age_seconds: Option<f64>,
        /// 95 % of the last hour's jobs took at most this long from due to finished; the upper bound of a bucket.
        pub p95_seconds: Option<f64>,
        /// Target for p95_seconds; null is best effort.
        pub sla_seconds: Option<f64>,
        /// Jobs due for longer get a quarter of the slots regardless of priority; null turns this off.
        pub boost_after_seconds: Option<f64>,
        /// Enqueues are refused above this number of waiting jobs.
        pub depth_cap: Option<u64>,
        pub owner: String,
        pub colour: String,
        /// Worker processes needed to finish the due jobs within half the SLA while keeping up with new ones.
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

/// All queues at one moment.
#[derive(Debug, Serialize)]
pub struct StatsView {
    pub at: Stamp,
    pub queues: Vec<QueueView>,
    pub workers: u64,
    pub resources: Vec<ResourceTotal>,
    /// Figures of parts.
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, Option<u64>>,
}

impl Shape for StatsView {
    fn schema(schemas: &mut Schemas) -> Value {
        let reference = schemas.object("Stats", "All queues at one moment.", |stats| {
            stats.required::<Stamp>("at", "");
            stats.required::<Vec<QueueView>>("queues", "");
            stats.required::<u64>("workers", "");
            stats.required::<Vec<ResourceTotal>>("resources", "Resources of all workers together.");
        });
        // Which figures exist depends on the parts of the process.
        schemas.open("Stats", json!({ "type": ["integer", "null"], "description": "A figure from a part" }));
        reference
    }
}

shape! {
    /// A resource across all worker processes.
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
    /// Sorted by name.
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
