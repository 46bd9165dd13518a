//! The worker process of the fault tests: this test binary, run again with a database in its environment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use windlass::{Backoff, Builder, Context, Job, JobError, KindSpec, Windlass, WorkerOptions};
use windlass_testkit::ledger::Ledger;

pub(crate) const DATABASE: &str = "WINDLASS_CHILD_DATABASE";
pub(crate) const LEDGER: &str = "WINDLASS_CHILD_LEDGER";
pub(crate) const EFFECTS: &str = "WINDLASS_CHILD_EFFECTS";
pub(crate) const LEASE_MS: &str = "WINDLASS_CHILD_LEASE_MS";

/// Writes a line to the ledger, then takes `ms`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) ms: u64,
}

impl Job for Append {
    const KIND: &'static str = "APPEND";

    fn spec() -> KindSpec {
        let backoff = Backoff { base: Duration::from_millis(20), ..Backoff::default() };
        KindSpec { backoff, max_attempts: 100, ..KindSpec::new(Self::KIND, Self::QUEUE) }
    }
}

/// One row in the application's table, in the transaction that completes the job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Keyed {}

impl Job for Keyed {
    const KIND: &'static str = "KEYED";

    fn spec() -> KindSpec {
        KindSpec { name: Self::KIND.to_owned(), ..Append::spec() }
    }
}

/// Kills its process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Abort {}

impl Job for Abort {
    const KIND: &'static str = "ABORT";
}

/// Everything the child can run; the parent uses the same to enqueue.
pub(crate) fn builder(url: &str, ledger: &Path, effects: &str) -> Builder {
    let ledger = Arc::new(Mutex::new(Ledger::append_to(ledger).unwrap()));
    let insert = format!("insert into {effects} (job_id) values ($1)");
    Windlass::builder()
        .database(url)
        .job(move |context, job| append(ledger.clone(), context, job))
        .job(move |context, job| keyed(insert.clone(), context, job))
        .job(abort)
}

async fn append(ledger: Arc<Mutex<Ledger>>, context: Context, job: Append) -> Result<(), JobError> {
    ledger.lock().unwrap().write(context.job_id(), context.token())?;
    if job.ms > 0 {
        tokio::time::sleep(Duration::from_millis(job.ms)).await;
    }
    Ok(())
}

async fn keyed(insert: String, context: Context, _: Keyed) -> Result<(), JobError> {
    let fail = |error: windlass::StoreError| JobError::retry(error.chain());
    let mut tx = context.begin().await.map_err(fail)?;
    let id = context.job_id().0;
    if let Some(postgres) = tx.postgres() {
        sqlx::query(AssertSqlSafe(insert)).bind(id).execute(postgres).await?;
    } else if let Some(sqlite) = tx.sqlite() {
        sqlx::query(AssertSqlSafe(insert)).bind(id).execute(sqlite).await?;
    }
    if !context.settle_in(&mut tx).await.map_err(fail)? {
        return Err(JobError::retry("the lease was lost"));
    }
    tx.commit().await.map_err(fail)
}

async fn abort(_: Context, _: Abort) -> Result<(), JobError> {
    std::process::abort()
}

/// Not a test of its own: without the environment of a parent it does nothing.
#[test]
fn worker() {
    let Ok(url) = std::env::var(DATABASE) else { return };
    let ledger = PathBuf::from(std::env::var(LEDGER).unwrap());
    let effects = std::env::var(EFFECTS).unwrap();
    let lease = Duration::from_millis(std::env::var(LEASE_MS).unwrap().parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = WorkerOptions { lease, ..WorkerOptions::default() };
        let windlass = builder(&url, &ledger, &effects).worker(options).build().await.unwrap();
        let _workers = windlass.start().await.unwrap();
        println!("started");
        std::future::pending::<()>().await;
    });
}
