//! `bench soak`: an open loop. Jobs are enqueued at a fixed rate whether or not the queue keeps up. Measures how late
//! they start, whether the depth stays flat, and how long a claim takes at the end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::parts::{DEFAULT_QUEUE, families};
use windlass_core::{KindSpec, Store};
use windlass_engine::{Client, EngineError, Handlers, JobRequest, Worker, WorkerOptions, handler};

use super::queue::BenchError;
use super::{percentile, rss_mb};

const KIND: &str = "SOAK";
const TICK: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_secs(1);
/// The length of "at the end".
const LAST: Duration = Duration::from_secs(10);
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize)]
pub(crate) struct SoakReport {
    store: &'static str,
    rate: u64,
    seconds: f64,
    offered: u64,
    completed: u64,
    completed_per_s: f64,
    depth_max: u64,
    depth_end: u64,
    end_to_end_p50_ms: f64,
    end_to_end_p99_ms: f64,
    claim_p50_ms_end: f64,
    claim_p99_ms_end: f64,
    rss_mb: f64,
}

#[derive(Serialize, Deserialize)]
struct Offered {
    /// Microseconds since the start at which the job was to be enqueued.
    at: u64,
}

pub(crate) async fn run(
    store: Arc<dyn Store>,
    rate: u64,
    period: Duration,
    workers: u32,
    second: impl Fn(u64, u64),
) -> Result<SoakReport, BenchError> {
    let name = store.name();
    let begun = Instant::now();
    let delays: Arc<Mutex<Vec<f64>>> = Arc::default();
    let (client, handlers) = prepare(store, begun, &delays).await?;
    let options = WorkerOptions { concurrency: Some(workers), ..WorkerOptions::default() };
    let worker = Worker::start(client.clone(), &handlers, options).await?;
    let producer = tokio::spawn(offer(client.clone(), begun, rate, period));
    let (mut depth_max, mut depth_end) = (0, 0);
    while !producer.is_finished() {
        tokio::time::sleep(LOOK).await;
        let left = period.saturating_sub(begun.elapsed());
        if left > LAST {
            worker.take_claim_times();
        }
        depth_end = depth(&client).await?;
        depth_max = depth_max.max(depth_end);
        second(begun.elapsed().as_secs(), depth_end);
    }
    let mut claims: Vec<f64> = worker.take_claim_times().iter().map(|t| t.as_secs_f64() * 1e3).collect();
    let offered = producer.await.map_err(|error| BenchError::Failed(error.to_string()))??;
    let in_time = finished(&delays);
    let seconds = begun.elapsed().as_secs_f64();
    let ended = Instant::now();
    while finished(&delays) < offered && ended.elapsed() < DRAIN_PATIENCE {
        tokio::time::sleep(TICK).await;
    }
    worker.shutdown().await?;
    let mut late = delays.lock().map(|all| all.clone()).unwrap_or_default();
    late.sort_by(f64::total_cmp);
    claims.sort_by(f64::total_cmp);
    Ok(SoakReport {
        store: name,
        rate,
        seconds: (seconds * 10.0).round() / 10.0,
        offered,
        completed: late.len() as u64,
        completed_per_s: (in_time as f64 / seconds).round(),
        depth_max,
        depth_end,
        end_to_end_p50_ms: percentile(&late, 0.50),
        end_to_end_p99_ms: percentile(&late, 0.99),
        claim_p50_ms_end: percentile(&claims, 0.50),
        claim_p99_ms_end: percentile(&claims, 0.99),
        rss_mb: rss_mb(),
    })
}

/// Lateness is measured from when the job was to be enqueued, so a slow enqueue counts too.
async fn prepare(
    store: Arc<dyn Store>,
    begun: Instant,
    delays: &Arc<Mutex<Vec<f64>>>,
) -> Result<(Client, Handlers), BenchError> {
    let delays = delays.clone();
    let mut handlers = Handlers::default();
    handlers.add(
        KindSpec::new(KIND, DEFAULT_QUEUE),
        handler(move |_, job: Offered| {
            let late = begun.elapsed().saturating_sub(Duration::from_micros(job.at));
            if let Ok(mut all) = delays.lock() {
                all.push(late.as_secs_f64() * 1e3);
            }
            async { Ok(()) }
        }),
    );
    let client = Client::open(store, &families(), &handlers.specs()).await?;
    Ok((client, handlers))
}

/// Each tick's jobs are enqueued in a separate task, so a slow commit does not delay later ones.
async fn offer(client: Client, begun: Instant, rate: u64, period: Duration) -> Result<u64, BenchError> {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut offered = 0;
    let mut sends = tokio::task::JoinSet::new();
    while begun.elapsed() < period {
        tick.tick().await;
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        let at = begun.elapsed().as_micros() as u64;
        for _ in offered..due {
            let payload =
                serde_json::to_vec(&Offered { at }).map_err(|e| BenchError::Failed(e.to_string()))?;
            let client = client.clone();
            sends.spawn(async move { client.enqueue(JobRequest::new(KIND, payload)).await });
        }
        offered = offered.max(due);
        while let Some(sent) = sends.try_join_next() {
            sent.map_err(|error| BenchError::Failed(error.to_string()))??;
        }
    }
    while let Some(sent) = sends.join_next().await {
        sent.map_err(|error| BenchError::Failed(error.to_string()))??;
    }
    Ok(offered)
}

fn finished(delays: &Mutex<Vec<f64>>) -> u64 {
    delays.lock().map(|all| all.len() as u64).unwrap_or(0)
}

async fn depth(client: &Client) -> Result<u64, EngineError> {
    let states = client.store().queues().await?;
    Ok(states.iter().map(|state| state.depth + state.running).sum())
}
