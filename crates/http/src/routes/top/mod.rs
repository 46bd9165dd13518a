//! Data for `windlass top`: queues, workers and failures. All lists are capped, and no large table is counted.

mod counts;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::{JobFilter, Page, QueueState, ResourceUse, WorkerRow};
use windlass_core::{JobRecord, JobState, QueueId, StoreError, Time, WorkerId};
use windlass_engine::Client;
use windlass_pack::{Answer, Problem, Route, Scope, ok, shape};

use self::counts::{Counts, HOUR, counts};
use super::Table;
use crate::app::App;
use crate::fresh::Fresh;
use crate::view::{Id, Stamp, State};

/// Workers write their counts every ten seconds, so reading more often shows nothing new.
const COUNTS_FRESH: Duration = Duration::from_secs(5);
const RUNNING_SHOWN: u32 = 200;
const FAILURES_SHOWN: usize = 30;
/// Failures are picked from this many of the newest.
const FAILURES_READ: u32 = 200;
const ERROR_SHOWN: usize = 300;

type Counted = Arc<HashMap<QueueId, Counts>>;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "Queues with rates per minute, workers with what they run, and the latest failures";
    let (app, kept) = (app.clone(), Arc::new(Fresh::new(COUNTS_FRESH)));
    let top = Route::get("/v1/top", "get_top", about, move |_| {
        let (app, kept) = (app.clone(), kept.clone());
        async move {
            match app {
                Some(app) => read(&app, &kept).await,
                None => Err(Problem::not_found("this route is only described")),
            }
        }
    });
    vec![top.needs(Scope::Read).json::<TopView>(200, "Queues, workers and failures")]
}

shape! {
    /// Queues, workers and failures at one moment.
    pub struct TopView as "Top" {
        pub at: Stamp,
        /// Most urgent first.
        pub queues: Vec<TopQueueView>,
        pub workers: Vec<TopWorkerView>,
        /// Newest first.
        pub failures: Vec<FailureView>,
    }
}

shape! {
    /// A queue now and in the last hour.
    pub struct TopQueueView as "TopQueue" {
        pub name: String,
        pub paused: bool,
        /// Due jobs, counted up to 10000.
        pub depth: u64,
        /// Jobs whose run_at is in the future, counted up to 10000.
        pub scheduled: u64,
        pub running: u64,
        pub oldest_seconds: Option<f64>,
        pub p95_seconds: Option<f64>,
        pub sla_seconds: Option<f64>,
        /// Total concurrency of all workers, as reported.
        pub slots: Option<u64>,
        pub global_concurrency: Option<u32>,
        /// In the current minute.
        pub completed_per_s: f64,
        pub failed_per_s: f64,
        /// For each of the last minutes, newest last.
        pub completed_by_minute: Vec<u64>,
        pub completed_last_hour: u64,
        pub failed_last_hour: u64,
    }
}

shape! {
    /// A worker process and what it runs.
    pub struct TopWorkerView as "TopWorker" {
        pub id: Id,
        pub process: String,
        pub running: u64,
        /// Of all its queues together.
        pub slots: u64,
        pub resources: Vec<HeldView>,
        /// Running jobs by kind; not necessarily all.
        pub kinds: Vec<KindCountView>,
        pub heard_seconds: f64,
        pub up_seconds: f64,
    }
}

shape! {
    /// Permits of a resource.
    pub struct HeldView as "HeldPermits" {
        pub resource: String,
        pub in_use: u64,
        pub permits: u32,
    }
}

shape! {
    /// Jobs of one kind.
    pub struct KindCountView as "KindCount" {
        pub kind: String,
        pub jobs: u64,
    }
}

shape! {
    /// A job that failed permanently.
    pub struct FailureView as "Failure" {
        pub id: Id,
        pub kind: String,
        pub state: State,
        pub ago_seconds: f64,
        /// Its first 300 characters.
        pub error: String,
    }
}

async fn read(app: &App, kept: &Fresh<Counted>) -> Answer {
    let client = &app.client;
    let now = client.now().await?;
    let count = async { Ok::<_, StoreError>(Arc::new(counts(&client.rollups(now.minus(HOUR)).await?, now))) };
    let counted = kept.get(count).await?;
    let workers = client.workers().await?;
    let queues = app.stats.queues().await?;
    ok(&TopView {
        at: Stamp(now),
        queues: queues.iter().map(|queue| queue_view(queue, &counted, &workers)).collect(),
        workers: worker_views(client, workers, now).await?,
        failures: failures(client, now).await?,
    })
}

fn queue_view(queue: &QueueState, counted: &Counted, workers: &[WorkerRow]) -> TopQueueView {
    let counts = counted.get(&queue.id).cloned().unwrap_or_default();
    let of = workers.iter().flat_map(|worker| &worker.concurrency).filter(|(of, _)| *of == queue.id);
    let slots = of.map(|(_, slots)| u64::from(*slots)).sum();
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    TopQueueView {
        name: queue.spec.name.clone(),
        paused: queue.paused,
        depth: queue.depth,
        scheduled: queue.scheduled,
        running: queue.running,
        oldest_seconds: seconds(queue.oldest),
        p95_seconds: seconds(counts.p95),
        sla_seconds: seconds(queue.spec.sla),
        slots: Some(slots).filter(|slots| *slots > 0),
        global_concurrency: queue.spec.global_concurrency,
        completed_per_s: counts.completed_per_s,
        failed_per_s: counts.failed_per_s,
        completed_by_minute: counts.by_minute,
        completed_last_hour: counts.completed,
        failed_last_hour: counts.failed,
    }
}

async fn worker_views(
    client: &Client,
    workers: Vec<WorkerRow>,
    now: Time,
) -> Result<Vec<TopWorkerView>, StoreError> {
    let mut kinds: HashMap<WorkerId, Vec<KindCountView>> = HashMap::new();
    if workers.iter().any(|worker| worker.running > 0) {
        for job in jobs(client, &[JobState::Running], RUNNING_SHOWN).await? {
            let Some(worker) = job.worker else { continue };
            let seen = kinds.entry(worker).or_default();
            match seen.iter_mut().find(|count| count.kind == job.kind) {
                Some(count) => count.jobs += 1,
                None => seen.push(KindCountView { kind: job.kind, jobs: 1 }),
            }
        }
    }
    let held = |of: ResourceUse| HeldView { resource: of.resource, in_use: of.in_use, permits: of.permits };
    let view = |worker: WorkerRow| TopWorkerView {
        id: Id(worker.id.0),
        process: worker.label,
        running: worker.running,
        slots: worker.concurrency.iter().map(|(_, slots)| u64::from(*slots)).sum(),
        resources: worker.resources.into_iter().map(held).collect(),
        kinds: kinds.remove(&worker.id).unwrap_or_default(),
        heard_seconds: now.since(worker.heartbeat_at).as_secs_f64(),
        up_seconds: now.since(worker.started_at).as_secs_f64(),
    };
    Ok(workers.into_iter().map(view).collect())
}

async fn failures(client: &Client, now: Time) -> Result<Vec<FailureView>, StoreError> {
    let mut jobs = jobs(client, &[JobState::Failed, JobState::DeadLetter], FAILURES_READ).await?;
    // The list is ordered by id, which is the order of enqueueing.
    jobs.sort_by_key(|job| Reverse(job.finished_at));
    jobs.truncate(FAILURES_SHOWN);
    let view = |job: JobRecord| FailureView {
        id: Id(job.id.0),
        kind: job.kind,
        state: State(job.state),
        ago_seconds: job.finished_at.map_or(0.0, |at| now.since(at).as_secs_f64()),
        error: job.last_error.unwrap_or_default().chars().take(ERROR_SHOWN).collect(),
    };
    Ok(jobs.into_iter().map(view).collect())
}

async fn jobs(client: &Client, states: &[JobState], limit: u32) -> Result<Vec<JobRecord>, StoreError> {
    let filter = JobFilter { states: states.to_vec(), ..JobFilter::default() };
    client.jobs(&filter, &Page { before: None, limit, excerpt: Some(0) }).await
}
