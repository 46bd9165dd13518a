//! A queue with its figures, and all of them together.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::store::{DEPTH_SHOWN, LATENCY_BUCKETS, QueueState, latency_quantile};
use windlass_core::{QueueId, Store, StoreError};

use super::Stamp;
use crate::shape::shape;

const HOUR: Duration = Duration::from_secs(3_600);

shape! {
    /// A queue (family) with its figures.
    pub struct QueueView as "Queue" {
        pub name: String,
        /// Default priority of its jobs, 0 is most urgent.
        pub priority: u8,
        pub paused: bool,
        /// Jobs one worker process runs at once.
        pub concurrency: u32,
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
        /// Waiting jobs above which enqueues are refused.
        pub depth_cap: Option<u64>,
        pub owner: String,
        pub colour: String,
        /// Worker processes that would run everything due at once.
        pub desired_workers: u64,
    }
}

impl QueueView {
    pub fn new(queue: &QueueState, p95: Option<Duration>) -> QueueView {
        let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64());
        QueueView {
            name: queue.spec.name.clone(),
            priority: queue.spec.priority,
            paused: queue.paused,
            concurrency: queue.spec.concurrency,
            cadence_seconds: queue.spec.cadence.as_secs_f64(),
            depth: queue.depth,
            depth_is_capped: queue.depth >= DEPTH_SHOWN,
            running: queue.running,
            scheduled: queue.scheduled,
            oldest_age_seconds: seconds(queue.oldest),
            p95_seconds: seconds(p95),
            sla_seconds: seconds(queue.spec.sla),
            depth_cap: queue.spec.depth_cap,
            owner: queue.spec.owner.clone(),
            colour: queue.spec.colour.clone(),
            desired_workers: desired(queue),
        }
    }
}

fn desired(queue: &QueueState) -> u64 {
    match queue.paused {
        true => 0,
        false => (queue.depth + queue.running).div_ceil(u64::from(queue.spec.concurrency.max(1))),
    }
}

shape! {
    /// Every queue at one moment.
    pub struct StatsView as "Stats" {
        pub at: Stamp,
        pub queues: Vec<QueueView>,
        pub workers: u64,
        /// Entities whose newest content is not in the index yet; null where nothing is indexed here.
        pub pending_entities: Option<u64>,
        pub indexed_entities: Option<u64>,
    }
}

/// Due-to-finished of the last hour, from the minutes the workers counted; an upper bound of the bucket.
pub async fn p95(store: &dyn Store) -> Result<HashMap<QueueId, Duration>, StoreError> {
    let now = store.now().await?;
    let mut counts: HashMap<QueueId, Vec<u64>> = HashMap::new();
    for rollup in store.rollups(now.minus(HOUR)).await? {
        let buckets = counts.entry(rollup.queue).or_insert_with(|| vec![0; LATENCY_BUCKETS]);
        for (bucket, count) in buckets.iter_mut().zip(rollup.latency) {
            *bucket += u64::from(count);
        }
    }
    let quantile = |(queue, counts): (QueueId, Vec<u64>)| Some((queue, latency_quantile(&counts, 0.95)?));
    Ok(counts.into_iter().filter_map(quantile).collect())
}
