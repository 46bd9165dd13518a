use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::queries::push_tasks;
use apalis_postgres::{Config, PgPool, PgTask, PostgresStorage};
use futures::future::try_join_all;
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;

use crate::measure::{self, Failure, Payload, Probe, keep_running, payload, payload_json, per_second};
use crate::{BATCH, FETCH, QUEUE, noop};

const CONNECTIONS: u32 = 10;
const LANES: usize = 4;
const WORKERS: usize = 4;

async fn connect(url: &str) -> Result<PgPool, Failure> {
    Ok(PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?)
}

pub async fn setup(url: &str) -> Result<Value, Failure> {
    PostgresStorage::setup(&connect(url).await?).await?;
    Ok(json!({}))
}

pub async fn enqueue(url: &str, jobs: u64) -> Result<Value, Failure> {
    let pool = connect(url).await?;
    // Built before the clock starts, so only the peer's own work is timed.
    let mut tasks: Vec<PgTask> =
        (0..jobs).map(|n| TaskBuilder::new(payload_json(&payload(n))).build()).collect();
    let mut work: Vec<Vec<Vec<PgTask>>> = (0..LANES).map(|_| Vec::new()).collect();
    for lane in (0..LANES).cycle() {
        if tasks.is_empty() {
            break;
        }
        work[lane].push(tasks.split_off(tasks.len().saturating_sub(BATCH)));
    }

    let started = Instant::now();
    try_join_all(work.into_iter().map(|batches| tokio::spawn(push_lane(pool.clone(), batches))))
        .await?
        .into_iter()
        .collect::<Result<Vec<()>, Failure>>()?;
    Ok(json!({"enqueue_per_s": per_second(jobs, started)}))
}

async fn push_lane(pool: PgPool, batches: Vec<Vec<PgTask>>) -> Result<(), Failure> {
    let mut connection = pool.acquire().await?;
    for tasks in batches {
        push_tasks(&mut *connection, QUEUE, tasks).await?;
    }
    Ok(())
}

fn config() -> Config {
    // Fetching already reserves a task for its worker; `lock_tasks` would only write a second, finer state.
    Config::default().queue(QUEUE).batch_size(FETCH).lock_tasks(false)
}

pub async fn drain(url: &str, jobs: u64) -> Result<Value, Failure> {
    let pool = connect(url).await?;
    let probe = Probe::counting();
    let started = Instant::now();
    for n in 0..WORKERS {
        let backend = PostgresStorage::<Payload>::new(&pool)
            .with_config(config())
            .poll_with_strategy(Strategy::new().interval(Duration::from_millis(10)));
        let worker =
            WorkerBuilder::new(format!("drain-{n}")).backend(backend).data(probe.clone()).build(noop);
        keep_running(async move { worker.run().await });
    }
    probe.wait_for(jobs).await;
    while unfinished(&pool).await? {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(json!({"drain_per_s": per_second(jobs, started), "ran": probe.ran()}))
}

/// Completions are written in batches, so the last handler call comes earlier than the last job is durably done.
async fn unfinished(pool: &PgPool) -> Result<bool, Failure> {
    let sql = "select exists (select from apalis.jobs where status <> 'Done')";
    Ok(sqlx::query_scalar(sql).fetch_one(pool).await?)
}

pub async fn pickup(url: &str, samples: usize) -> Result<Value, Failure> {
    let pool = connect(url).await?;
    let (probe, arrivals) = Probe::timing();
    let backend = PostgresStorage::<Payload>::new(&pool).with_config(config()).with_pubsub();
    let worker = WorkerBuilder::new("pickup").backend(backend).data(probe.clone()).build(noop);
    keep_running(async move { worker.run().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    measure::pickup(samples, arrivals, |body| push_one(pool.clone(), body)).await
}

async fn push_one(pool: PgPool, body: Payload) -> Result<(), Failure> {
    let mut connection = pool.acquire().await?;
    let task = TaskBuilder::new(payload_json(&body)).build();
    Ok(push_tasks(&mut *connection, QUEUE, vec![task]).await?)
}
