//! `bench pickup`: how soon an idle worker starts a job, enqueued plainly or in a caller's transaction.

use std::sync::Arc;

use serde::Serialize;
use windlass_core::Store;

use super::percentile;
use super::queue::{Bench, BenchError};

const WORKERS: u32 = 8;

#[derive(Debug, Serialize)]
pub(crate) struct PickupReport {
    store: &'static str,
    enqueue_p50_ms: f64,
    enqueue_p95_ms: f64,
    enqueue_in_p50_ms: f64,
    enqueue_in_p95_ms: f64,
}

pub(crate) async fn run(store: Arc<dyn Store>) -> Result<PickupReport, BenchError> {
    let name = store.name();
    let mut bench = Bench::new(store, WORKERS, 1).await?;
    let plain = bench.pickup(false).await?;
    let inside = bench.pickup(true).await?;
    Ok(PickupReport {
        store: name,
        enqueue_p50_ms: percentile(&plain, 0.50),
        enqueue_p95_ms: percentile(&plain, 0.95),
        enqueue_in_p50_ms: percentile(&inside, 0.50),
        enqueue_in_p95_ms: percentile(&inside, 0.95),
    })
}
