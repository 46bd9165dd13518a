use std::str::FromStr;
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_sqlite::queries::push_tasks;
use apalis_sqlite::{Config, SqlitePool, SqliteStorage, SqliteTask};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::measure::{self, Failure, Payload, Probe, keep_running, payload, payload_json, per_second};
use crate::{BATCH, FETCH, QUEUE, noop};

/// `SqliteStorage::setup` turns fsync off on the connection it uses, so that one is thrown away: every timed
/// connection is as durable as Windlass's own.
async fn connect(url: &str) -> Result<SqlitePool, Failure> {
    let options = SqliteConnectOptions::from_str(url)?
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(30))
        .create_if_missing(true);
    Ok(SqlitePoolOptions::new().max_connections(1).connect_with(options).await?)
}

pub async fn setup(url: &str) -> Result<Value, Failure> {
    SqliteStorage::setup(&connect(url).await?).await?;
    Ok(json!({}))
}

pub async fn enqueue(url: &str, jobs: u64) -> Result<Value, Failure> {
    let pool = connect(url).await?;
    let tasks: Vec<SqliteTask> =
        (0..jobs).map(|n| TaskBuilder::new(payload_json(&payload(n))).build()).collect();
    let started = Instant::now();
    for batch in tasks.chunks(BATCH) {
        let mut transaction = pool.begin().await?;
        push_tasks(&mut *transaction, QUEUE, batch).await?;
        transaction.commit().await?;
    }
    Ok(json!({"enqueue_per_s": per_second(jobs, started)}))
}

fn config() -> Config {
    Config::default().queue(QUEUE).batch_size(FETCH).lock_tasks(false)
}

fn start_worker(name: &str, pool: &SqlitePool, probe: &Probe, wake: Strategy) {
    let backend = SqliteStorage::<Payload>::new(pool).with_config(config()).poll_with_strategy(wake);
    let worker = WorkerBuilder::new(name).backend(backend).data(probe.clone()).build(noop);
    keep_running(async move { worker.run().await });
}

fn polling() -> Strategy {
    Strategy::new().interval(Duration::from_millis(10))
}

pub async fn drain(url: &str, jobs: u64) -> Result<Value, Failure> {
    let pool = connect(url).await?;
    let probe = Probe::counting();
    let started = Instant::now();
    start_worker("drain", &pool, &probe, polling());
    // Until the statistics know the worker's name, SQLite joins each acknowledgement to every job the worker ever had.
    probe.wait_for(jobs / 50).await;
    sqlx::query("analyze").execute(&pool).await?;
    probe.wait_for(jobs).await;
    let sql = "select exists (select 1 from Jobs where status <> 'Done')";
    while sqlx::query_scalar(sql).fetch_one(&pool).await? {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(json!({"drain_per_s": per_second(jobs, started), "ran": probe.ran()}))
}

pub async fn pickup(url: &str, samples: usize) -> Result<Value, Failure> {
    let (pool, inserted) = SqliteStorage::connect_with_callback(url)?;
    let (probe, arrivals) = Probe::timing();
    let wake = Strategy::new().stream(inserted).interval(Duration::from_millis(10));
    start_worker("pickup", &pool, &probe, wake);
    measure::pickup(samples, arrivals, |body| push_one(pool.clone(), body)).await
}

async fn push_one(pool: SqlitePool, body: Payload) -> Result<(), Failure> {
    let mut connection = pool.acquire().await?;
    let task = TaskBuilder::new(payload_json(&body)).build();
    Ok(push_tasks(&mut *connection, QUEUE, &[task]).await?)
}
