//! `bench queue`: how fast this machine enqueues, drains and picks up jobs, compared with a bare SQL loop.
//!
//! Every figure covers the whole contract: durable enqueue, leases with tokens, attempt and finished rows. The limits
//! are the minimal SQL of a fenced queue on the same database in the same run.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::mpsc;
use windlass::parts::{DEFAULT_QUEUE, families};
use windlass_core::store::BenchLimit;
use windlass_core::{KindSpec, Store};
use windlass_engine::{
    Client, EngineError, EnqueueError, Handlers, JobRequest, Worker, WorkerOptions, handler,
};

use super::{percentile, rss_mb};

const KIND: &str = "BENCH";
const KEYED_KIND: &str = "BENCH_KEYED";
const PRODUCERS: u64 = 4;
/// Rounds of the comparison with keys.
const ROUNDS: u32 = 3;
const BULK: usize = 2_500;
const MIXED: usize = 1_000;
const SINGLE_CALLERS: u64 = 64;
const PICKUPS: usize = 300;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    #[error(transparent)]
    Entity(#[from] windlass_index::EntityError),
    #[error("{0}")]
    Failed(String),
}

#[derive(Debug, Serialize)]
pub(crate) struct QueueReport {
    pub(crate) store: &'static str,
    pub(crate) jobs: u64,
    pub(crate) enqueue_per_s: f64,
    pub(crate) enqueue_one_per_s: f64,
    pub(crate) enqueue_one_p50_ms: f64,
    pub(crate) enqueue_one_p95_ms: f64,
    pub(crate) drain_per_s: f64,
    /// Before finished jobs were inserted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) empty_drain_per_s: Option<f64>,
    pub(crate) pickup_p50_ms: f64,
    pub(crate) pickup_p95_ms: f64,
    pub(crate) mixed_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keyed_enqueue_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keyed_drain_per_s: Option<f64>,
    pub(crate) limit_enqueue_per_s: f64,
    pub(crate) limit_drain_per_s: f64,
    pub(crate) rss_mb: f64,
}

/// Sizes of the benchmark.
pub(crate) struct Size {
    pub(crate) jobs: u64,
    pub(crate) workers: u32,
    /// Finished jobs to insert first.
    pub(crate) retain: u64,
    pub(crate) keys: Option<Keys>,
}

/// Jobs in lanes.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    pub(crate) keys: u64,
    /// Jobs of one key that run at once.
    pub(crate) limit: u16,
}

/// Runs all phases in order on an empty, migrated store. `rest` waits for the database's background work after a load;
/// `phase` is called at the start of each phase.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    size: Size,
    rest: impl AsyncFn() -> Result<(), BenchError>,
    limit: impl Future<Output = Result<BenchLimit, BenchError>>,
    phase: impl Fn(&str),
) -> Result<QueueReport, BenchError> {
    let name = store.name();
    let Size { jobs, workers, retain, keys } = size;
    let mut bench = Bench::new(store, workers, keys.map_or(1, |keys| keys.limit)).await?;
    let mut empty = None;
    if retain > 0 {
        phase("burn-down on empty tables");
        rest().await?;
        empty = Some(bench.warm_drain(jobs).await?);
        phase("finished jobs to retain");
        bench.bulk(retain).await?;
        bench.drain(retain).await?;
        rest().await?;
    }
    let Burned { plain, keyed } = burn_down(&bench, jobs, keys, &phase).await?;
    phase("single enqueues from 64 callers");
    let (enqueue_one_per_s, ones) = bench.singles(jobs).await?;
    bench.drain(0).await?;
    phase("pickup on an idle worker");
    let pickups = bench.pickup(false).await?;
    phase("producer and workers at once");
    let mixed_per_s = bench.mixed(jobs).await?;
    phase("bare loop on the same database");
    let limit = limit.await?;
    Ok(QueueReport {
        store: name,
        jobs,
        enqueue_per_s: plain.enqueue.per_s().round(),
        enqueue_one_per_s: enqueue_one_per_s.round(),
        enqueue_one_p50_ms: percentile(&ones, 0.50),
        enqueue_one_p95_ms: percentile(&ones, 0.95),
        drain_per_s: plain.drain.per_s().round(),
        empty_drain_per_s: empty.map(|empty| empty.per_s().round()),
        pickup_p50_ms: percentile(&pickups, 0.50),
        pickup_p95_ms: percentile(&pickups, 0.95),
        mixed_per_s: mixed_per_s.round(),
        keyed_enqueue_per_s: keyed.as_ref().map(|keyed| keyed.enqueue.per_s().round()),
        keyed_drain_per_s: keyed.as_ref().map(|keyed| keyed.drain.per_s().round()),
        limit_enqueue_per_s: limit.enqueue_per_s.round(),
        limit_drain_per_s: limit.drain_per_s.round(),
        rss_mb: rss_mb(),
    })
}

/// Jobs and the time they took.
#[derive(Clone, Copy, Default)]
struct Took {
    jobs: u64,
    time: Duration,
}

impl Took {
    fn add(&mut self, more: Took) {
        self.jobs += more.jobs;
        self.time += more.time;
    }

    fn per_s(self) -> f64 {
        self.jobs as f64 / self.time.as_secs_f64()
    }
}

#[derive(Default)]
struct InAndOut {
    enqueue: Took,
    drain: Took,
}

struct Burned {
    plain: InAndOut,
    keyed: Option<InAndOut>,
}

/// Jobs without keys, and with keys if requested. Both alternate, because a machine's speed varies from second to
/// second and each should get its share.
async fn burn_down(
    bench: &Bench,
    jobs: u64,
    keys: Option<Keys>,
    phase: &impl Fn(&str),
) -> Result<Burned, BenchError> {
    let mut burned = Burned { plain: InAndOut::default(), keyed: keys.map(|_| InAndOut::default()) };
    let rounds = if keys.is_some() { ROUNDS } else { 1 };
    for round in 1..=rounds {
        let phase = |name: &str| match rounds {
            1 => phase(name),
            _ => phase(&format!("{name}, round {round} of {rounds}")),
        };
        phase("bulk enqueue");
        burned.plain.enqueue.add(bench.bulk(jobs).await?);
        phase("burn-down");
        burned.plain.drain.add(bench.drain(jobs).await?);
        if let (Some(Keys { keys, .. }), Some(keyed)) = (keys, &mut burned.keyed) {
            phase("bulk enqueue of jobs with keys");
            keyed.enqueue.add(bench.bulk_of(jobs, |n| keyed_request(n, keys)).await?);
            phase("burn-down of jobs with keys");
            keyed.drain.add(bench.drain(jobs).await?);
        }
    }
    Ok(burned)
}

pub(super) struct Bench {
    client: Client,
    handlers: Handlers,
    options: WorkerOptions,
    done: Arc<AtomicU64>,
    started: mpsc::UnboundedReceiver<Instant>,
}

impl Bench {
    pub(super) async fn new(
        store: Arc<dyn Store>,
        workers: u32,
        key_concurrency: u16,
    ) -> Result<Bench, BenchError> {
        let done = Arc::new(AtomicU64::new(0));
        let (sender, started) = mpsc::unbounded_channel();
        let mut handlers = Handlers::default();
        let keyed = KindSpec { key_concurrency, ..KindSpec::new(KEYED_KIND, DEFAULT_QUEUE) };
        for spec in [KindSpec::new(KIND, DEFAULT_QUEUE), keyed] {
            let (counter, sender) = (done.clone(), sender.clone());
            handlers.add(
                spec,
                handler(move |_, payload: serde_json::Value| {
                    // Only pickups carry a mark, so that draining does not pay for the measurement.
                    if payload.get("mark").is_some() {
                        let _ = sender.send(Instant::now());
                    }
                    counter.fetch_add(1, Ordering::Relaxed);
                    async { Ok(()) }
                }),
            );
        }
        let client = Client::open(store, &families(), &handlers.specs()).await?;
        let options = WorkerOptions { concurrency: Some(workers), ..WorkerOptions::default() };
        Ok(Bench { client, handlers, options, done, started })
    }

    async fn bulk(&self, jobs: u64) -> Result<Took, BenchError> {
        self.bulk_of(jobs, plain_request).await
    }

    async fn bulk_of(&self, jobs: u64, request: impl Fn(u64) -> JobRequest) -> Result<Took, BenchError> {
        // Several producers: one waits for its commit while another encodes. Building the requests is the application's
        // work and is not measured.
        let share = jobs.div_ceil(PRODUCERS);
        let shares = (0..PRODUCERS).map(|n| {
            let first = n * share;
            requests(first..(first + share).min(jobs), BULK, &request)
        });
        let shares: Vec<Vec<Vec<JobRequest>>> = shares.collect();
        let begun = Instant::now();
        let mut producers = tokio::task::JoinSet::new();
        for chunks in shares {
            producers.spawn(send(self.client.clone(), chunks));
        }
        while let Some(sent) = producers.join_next().await {
            sent.map_err(|error| BenchError::Failed(error.to_string()))??;
        }
        Ok(Took { jobs, time: begun.elapsed() })
    }

    /// Drains all waiting jobs; there are at least `expected`.
    async fn drain(&self, expected: u64) -> Result<Took, BenchError> {
        self.done.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        let worker = Worker::start(self.client.clone(), &self.handlers, self.options.clone()).await?;
        wait_settled(self, expected).await?;
        let time = begun.elapsed();
        worker.shutdown().await?;
        Ok(Took { jobs: self.done.load(Ordering::Relaxed), time })
    }

    /// Drains after a warm-up with a tenth as many jobs, because the drain it is compared with is warm too.
    async fn warm_drain(&self, jobs: u64) -> Result<Took, BenchError> {
        self.bulk(jobs / 10).await?;
        self.drain(jobs / 10).await?;
        self.bulk(jobs).await?;
        self.drain(jobs).await
    }

    async fn singles(&self, jobs: u64) -> Result<(f64, Vec<f64>), BenchError> {
        let each = (jobs / SINGLE_CALLERS).max(1);
        let begun = Instant::now();
        let mut callers = Vec::new();
        for _ in 0..SINGLE_CALLERS {
            let client = self.client.clone();
            callers.push(tokio::spawn(async move {
                let mut took = Vec::with_capacity(each as usize);
                for n in 0..each {
                    let call = Instant::now();
                    client.enqueue(plain_request(n)).await?;
                    took.push(call.elapsed().as_secs_f64() * 1e3);
                }
                Ok::<_, EnqueueError>(took)
            }));
        }
        let mut all = Vec::with_capacity((each * SINGLE_CALLERS) as usize);
        for caller in callers {
            all.extend(caller.await.map_err(|error| BenchError::Failed(error.to_string()))??);
        }
        let rate = all.len() as f64 / begun.elapsed().as_secs_f64();
        all.sort_by(f64::total_cmp);
        Ok((rate, all))
    }

    /// From the enqueue call to the handler's first line; with `in_transaction` from the call of commit.
    pub(super) async fn pickup(&mut self, in_transaction: bool) -> Result<Vec<f64>, BenchError> {
        let worker = Worker::start(self.client.clone(), &self.handlers, self.options.clone()).await?;
        let mut took = Vec::with_capacity(PICKUPS);
        for n in 0..PICKUPS {
            // The worker must be idle again, or a prefetch would make the result look better.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let request = JobRequest::new(KIND, format!("{{\"mark\":{n}}}").into_bytes());
            let call = match in_transaction {
                true => self.commit_one(request).await?,
                false => {
                    let call = Instant::now();
                    self.client.enqueue(request).await?;
                    call
                }
            };
            let Some(first_line) = self.started.recv().await else { break };
            took.push(first_line.saturating_duration_since(call).as_secs_f64() * 1e3);
        }
        worker.shutdown().await?;
        took.sort_by(f64::total_cmp);
        Ok(took)
    }

    async fn commit_one(&self, request: JobRequest) -> Result<Instant, BenchError> {
        let mut tx = self.client.store().begin().await.map_err(EngineError::from)?;
        self.client.enqueue_in(tx.tx(), vec![request]).await?;
        let call = Instant::now();
        tx.commit().await.map_err(EngineError::from)?;
        Ok(call)
    }

    async fn mixed(&self, jobs: u64) -> Result<f64, BenchError> {
        self.done.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        let worker = Worker::start(self.client.clone(), &self.handlers, self.options.clone()).await?;
        send(self.client.clone(), requests(0..jobs, MIXED, &plain_request)).await?;
        wait_settled(self, jobs).await?;
        let elapsed = begun.elapsed();
        worker.shutdown().await?;
        Ok(jobs as f64 / elapsed.as_secs_f64())
    }
}

fn requests(jobs: Range<u64>, chunk: usize, request: &impl Fn(u64) -> JobRequest) -> Vec<Vec<JobRequest>> {
    let all: Vec<u64> = jobs.collect();
    all.chunks(chunk).map(|numbers| numbers.iter().map(|n| request(*n)).collect()).collect()
}

fn plain_request(n: u64) -> JobRequest {
    JobRequest::new(KIND, payload(n))
}

fn keyed_request(n: u64, keys: u64) -> JobRequest {
    let concurrency_key = Some(format!("tenant-{}", n % keys));
    JobRequest { concurrency_key, ..JobRequest::new(KEYED_KIND, payload(n)) }
}

async fn send(client: Client, chunks: Vec<Vec<JobRequest>>) -> Result<(), EnqueueError> {
    for chunk in chunks {
        client.enqueue_many(chunk).await?;
    }
    Ok(())
}

/// Waits until the handler ran `expected` times and no job is waiting or leased.
async fn wait_settled(bench: &Bench, expected: u64) -> Result<(), BenchError> {
    loop {
        tokio::time::sleep(Duration::from_millis(2)).await;
        if bench.done.load(Ordering::Relaxed) < expected {
            continue;
        }
        let states = bench.client.store().queues().await.map_err(EngineError::from)?;
        if states.iter().all(|state| state.depth == 0 && state.running == 0) {
            return Ok(());
        }
    }
}

/// About 200 bytes of JSON.
fn payload(n: u64) -> Vec<u8> {
    format!(
        "{{\"n\":{n},\"user\":\"user-{:08}\",\"subject\":\"Weekly summary of what happened\",\"body\":\"{}\"}}",
        n % 100_000,
        "lorem ipsum dolor sit amet ".repeat(4)
    )
    .into_bytes()
}
