//! The job kinds of the fault tests, in this process and its children. Each leaves a trace outside the engine.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use windlass::{
    Backoff, Builder, Completion, Context, HandlerResult, Job, JobError, KindSpec, StoreError, Windlass,
};
use windlass_core::Token;
use windlass_core::store::{Report, ReportBody};
use windlass_testkit::ledger::Ledger;
use windlass_testkit::spans::Spans;

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

/// A job of a workflow. Writes one line to the ledger when it begins and one, with the negated token, when it ends.
/// Fails unless it reads the results of `parents` parents.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkflowJob {
    pub(crate) ms: u64,
    pub(crate) parents: usize,
}

impl Job for WorkflowJob {
    const KIND: &'static str = "WORKFLOW_JOB";

    fn spec() -> KindSpec {
        KindSpec { name: Self::KIND.to_owned(), ..Append::spec() }
    }
}

/// Inserts one row into the application's table in the transaction that completes the job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TxEffect {}

impl Job for TxEffect {
    const KIND: &'static str = "TX_EFFECT";

    fn spec() -> KindSpec {
        KindSpec { name: Self::KIND.to_owned(), ..Append::spec() }
    }
}

/// Writes a line to the ledger, then runs until `file` exists. With `in_tx` it ends like [`TxEffect`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) file: PathBuf,
    pub(crate) in_tx: bool,
}

impl Job for Hold {
    const KIND: &'static str = "HOLD";

    fn spec() -> KindSpec {
        KindSpec { name: Self::KIND.to_owned(), ..Append::spec() }
    }
}

/// Goes on after its run was aborted, as blocking code would. Reports and settles after `ms` even if its lease is lost,
/// and prints `late <job> <token> reported <lines kept> settled <was it accepted>`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LateSettle {
    pub(crate) ms: u64,
}

impl Job for LateSettle {
    const KIND: &'static str = "LATE_SETTLE";

    fn spec() -> KindSpec {
        KindSpec { name: Self::KIND.to_owned(), ..Append::spec() }
    }
}

/// Records its start and its end. It ends after `ms` and once the file `until` exists. At most `AT_ONCE` jobs of a key
/// run at once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeySpan<const AT_ONCE: u16> {
    pub(crate) key: String,
    pub(crate) ms: u64,
    pub(crate) until: Option<PathBuf>,
}

impl<const AT_ONCE: u16> Job for KeySpan<AT_ONCE> {
    const KIND: &'static str = if AT_ONCE == 1 { "KEY_SPAN" } else { "WIDE_KEY_SPAN" };

    fn spec() -> KindSpec {
        KindSpec { name: Self::KIND.to_owned(), key_concurrency: AT_ONCE, ..Append::spec() }
    }
}

/// The file in which [`KeySpan`] and [`QueueSpan`] jobs record their runs.
pub(crate) fn spans_beside(ledger: &Path) -> PathBuf {
    ledger.with_extension("spans")
}

/// Records its start and its end like [`KeySpan`]; no other kind uses its queue.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct QueueSpan {
    pub(crate) ms: u64,
    pub(crate) until: Option<PathBuf>,
}

impl Job for QueueSpan {
    const KIND: &'static str = "QUEUE_SPAN";
    const QUEUE: &'static str = "BULK";

    fn spec() -> KindSpec {
        KindSpec { name: Self::KIND.to_owned(), queue: Self::QUEUE.to_owned(), ..Append::spec() }
    }
}

/// Kills its process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Abort {}

impl Job for Abort {
    const KIND: &'static str = "ABORT";
}

/// Files and statement with which jobs leave traces.
#[derive(Clone)]
struct Traces {
    ledger: Arc<Mutex<Ledger>>,
    spans: Arc<Mutex<Spans>>,
    insert: Arc<str>,
}

/// A builder with all kinds, for parent and child processes.
pub(crate) fn builder(url: &str, ledger: &Path, effects: &str) -> Builder {
    let traces = Traces {
        ledger: Arc::new(Mutex::new(Ledger::append_to(ledger).unwrap())),
        spans: Arc::new(Mutex::new(Spans::append_to(&spans_beside(ledger)).unwrap())),
        insert: format!("insert into {effects} (job_id) values ($1)").into(),
    };
    let (one, two, three, four) = (traces.clone(), traces.clone(), traces.clone(), traces.clone());
    let (five, six, seven, eight) = (traces.clone(), traces.clone(), traces.clone(), traces);
    Windlass::builder()
        .database(url)
        .job(move |context, job| append(one.clone(), context, job))
        .job(move |context, _: TxEffect| tx_effect(two.clone(), context))
        .job(move |context, job| hold(three.clone(), context, job))
        .job(move |context, job| late_settle(four.clone(), context, job))
        .job(move |context, job: KeySpan<1>| record_span(five.clone(), context, job.key, job.ms, job.until))
        .job(move |context, job: KeySpan<3>| record_span(six.clone(), context, job.key, job.ms, job.until))
        .job(move |context, job: QueueSpan| {
            record_span(seven.clone(), context, "shared".to_owned(), job.ms, job.until)
        })
        .job(abort)
        .job(move |context, job| workflow_job(eight.clone(), context, job))
}

impl Traces {
    fn write(&self, context: &Context) -> Result<(), JobError> {
        Ok(self.ledger.lock().unwrap().write(context.job_id(), context.token())?)
    }
}

async fn append(traces: Traces, context: Context, job: Append) -> Result<(), JobError> {
    traces.write(&context)?;
    if job.ms > 0 {
        tokio::time::sleep(Duration::from_millis(job.ms)).await;
    }
    Ok(())
}

async fn workflow_job(traces: Traces, context: Context, job: WorkflowJob) -> HandlerResult {
    traces.write(&context)?;
    let results = context.parent_results().await?;
    if results.len() != job.parents || results.values().any(|value| !value.is_i64()) {
        return Err(JobError::fail(format!("{} results instead of {}", results.len(), job.parents)));
    }
    tokio::time::sleep(Duration::from_millis(job.ms)).await;
    traces.ledger.lock().unwrap().write(context.job_id(), Token(-context.token().0))?;
    Completion::with(&context.token().0)
}

async fn tx_effect(traces: Traces, context: Context) -> Result<(), JobError> {
    let fail = |error: StoreError| JobError::retry(error.chain());
    let mut tx = context.begin().await.map_err(fail)?;
    let id = context.job_id().0;
    let insert = AssertSqlSafe(traces.insert);
    if let Some(postgres) = tx.postgres() {
        sqlx::query(insert).bind(id).execute(postgres).await?;
    } else if let Some(sqlite) = tx.sqlite() {
        sqlx::query(insert).bind(id).execute(sqlite).await?;
    }
    if !context.settle_in(&mut tx).await.map_err(fail)? {
        return Err(JobError::retry("the lease was lost"));
    }
    tx.commit().await.map_err(fail)
}

async fn hold(traces: Traces, context: Context, job: Hold) -> Result<(), JobError> {
    traces.write(&context)?;
    released(&job.file).await;
    if job.in_tx { tx_effect(traces, context).await } else { Ok(()) }
}

async fn released(file: &Path) {
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn late_settle(traces: Traces, context: Context, job: LateSettle) -> Result<(), JobError> {
    traces.write(&context)?;
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(job.ms)).await;
        let (id, token, attempt) = (context.job_id(), context.token(), context.attempt());
        let body = ReportBody::Log { line: format!("late under {token}") };
        let kept = context.client().store().report(&[Report { id, token, attempt, body }]).await?;
        let mut tx = context.begin().await?;
        let settled = context.settle_in(&mut tx).await?;
        tx.commit().await?;
        println!("late {id} {token} reported {kept} settled {settled}");
        Ok::<(), StoreError>(())
    })
    .await?
    .map_err(|error| JobError::retry(error.chain()))
}

async fn record_span(
    traces: Traces,
    context: Context,
    key: String,
    ms: u64,
    until: Option<PathBuf>,
) -> Result<(), JobError> {
    traces.spans.lock().unwrap().start(&key, context.job_id())?;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    if let Some(file) = until {
        released(&file).await;
    }
    traces.spans.lock().unwrap().end(&key, context.job_id())?;
    Ok(())
}

async fn abort(_: Context, _: Abort) -> Result<(), JobError> {
    std::process::abort()
}
