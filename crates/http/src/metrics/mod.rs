//! `/metrics`: what this process and its database look like, as Prometheus text.
//!
//! Owns names, types and help of every series; canonical ones start with `windlass_`, the documents' own names stand
//! beside them. A figure that cannot be read is left out, and `windlass_store_up` says so: a scrape never fails because
//! the database does.

mod process;
mod text;

use windlass_core::store::{JobFilter, QueueState};
use windlass_core::{JobState, StoreError};
use windlass_engine::meter::{RUN_BUCKETS, RunSeries};

use crate::app::{App, Indexing};
use text::Text;

const FAILED: JobState = JobState::Failed;
const DEAD: JobState = JobState::DeadLetter;

pub(crate) async fn render(app: &App) -> String {
    let mut text = Text::new(&app.options.application);
    let store = app.client.store().name();
    text.gauge("windlass_info", "Version and database of this process.");
    text.sample("windlass_info", &[("version", env!("CARGO_PKG_VERSION")), ("store", store)], 1.0);
    let figures = figures(app).await;
    text.gauge("windlass_store_up", "1 while the database answers.");
    text.sample("windlass_store_up", &[], if figures.is_ok() { 1.0 } else { 0.0 });
    match figures {
        Ok(figures) => database(&mut text, &figures),
        Err(error) => tracing::warn!(causes = error.chain(), "the metrics of the database are left out"),
    }
    runs(&mut text, app);
    answers(&mut text, app);
    process::add(&mut text);
    text.into_string()
}

/// Everything that is asked of the database for one scrape.
struct Figures {
    queues: Vec<Figure>,
    workers: usize,
    indexing: Option<Indexing>,
}

struct Figure {
    queue: QueueState,
    p95: Option<f64>,
    failed: u64,
    dead: u64,
}

async fn figures(app: &App) -> Result<Figures, StoreError> {
    let store = app.client.store();
    let p95 = app.stats.p95().await?;
    let mut queues = Vec::new();
    for queue in app.stats.queues().await? {
        let count = |state| {
            let filter = JobFilter { states: vec![state], queue: Some(queue.id), ..JobFilter::default() };
            async move { store.count(&filter).await }
        };
        let (failed, dead) = (count(FAILED).await?, count(DEAD).await?);
        let p95 = p95.get(&queue.id).map(|p95| p95.as_secs_f64());
        queues.push(Figure { queue, p95, failed, dead });
    }
    let workers = store.workers().await?.len();
    Ok(Figures { queues, workers, indexing: app.stats.indexing().await? })
}

fn database(text: &mut Text, figures: &Figures) {
    type Read = fn(&Figure) -> Option<f64>;
    let per_queue: [(&str, &str, Read); 10] = [
        ("windlass_queue_depth", "Jobs that are due, counted up to 10000.", |f| Some(f.queue.depth as f64)),
        ("windlass_queue_running", "Jobs that are leased.", |f| Some(f.queue.running as f64)),
        ("windlass_queue_scheduled", "Jobs whose time lies ahead, counted up to 10000.", |f| {
            Some(f.queue.scheduled as f64)
        }),
        ("windlass_queue_oldest_due_age_seconds", "How long the oldest due job has been due.", |f| {
            Some(f.queue.oldest.unwrap_or_default().as_secs_f64())
        }),
        ("windlass_queue_paused", "1 while the queue is paused.", |f| {
            Some(f64::from(u8::from(f.queue.paused)))
        }),
        ("windlass_queue_concurrency", "Jobs one worker process runs at once.", |f| {
            Some(f64::from(f.queue.spec.concurrency))
        }),
        (
            "windlass_queue_latency_p95_seconds",
            "Due-to-finished of 95 % of the last hour's jobs, at most.",
            |f| f.p95,
        ),
        ("windlass_queue_sla_seconds", "Due-to-finished bound for 95 % of jobs.", |f| {
            f.queue.spec.sla.map(|sla| sla.as_secs_f64())
        }),
        ("job_queue_backlog_total", "Jobs that are due, counted up to 10000.", |f| {
            Some(f.queue.depth as f64)
        }),
        ("dead_letter_queue_size", "Failed jobs and dead letters.", |f| Some((f.failed + f.dead) as f64)),
    ];
    for (name, help, read) in per_queue {
        text.gauge(name, help);
        for figure in &figures.queues {
            if let Some(value) = read(figure) {
                text.sample(name, &[("queue", &figure.queue.spec.name)], value);
            }
        }
    }
    let name = "windlass_dead_letters";
    text.gauge(name, "Jobs that nobody will run again by themselves.");
    for figure in &figures.queues {
        for (state, count) in [(FAILED, figure.failed), (DEAD, figure.dead)] {
            text.sample(name, &[("queue", &figure.queue.spec.name), ("state", state.name())], count as f64);
        }
    }
    text.gauge("windlass_workers", "Worker processes the database knows to be alive.");
    text.sample("windlass_workers", &[], figures.workers as f64);
    if let Some(figures) = &figures.indexing {
        indexing(text, figures);
    }
}

/// Where a part indexes entities; the counts are its own.
fn indexing(text: &mut Text, figures: &Indexing) {
    let gauges = [
        (
            "windlass_entities_pending",
            "Entities whose newest content is not in the index.",
            figures.pending_entities,
        ),
        (
            "windlass_entities_indexed",
            "Entities whose newest content is in the index.",
            figures.indexed_entities,
        ),
        ("indexing_queue_pending", "Boxes that wait.", figures.queue_pending),
        ("indexing_queue_processing", "Boxes that are being embedded.", figures.queue_processing),
        ("indexing_queue_failed", "Boxes that failed.", figures.queue_failed),
        ("indexing_queue_dead_letter", "Boxes that ran out of attempts.", figures.queue_dead_letter),
        ("indexing_queue_sync", "Boxes of the strategy sync.", figures.queue_sync),
        ("indexing_queue_async", "Boxes of the strategy async.", figures.queue_async),
        ("indexing_queue_batch", "Boxes of the strategy batch.", figures.queue_batch),
    ];
    for (name, help, value) in gauges {
        text.gauge(name, help);
        text.sample(name, &[], value as f64);
    }
    let name = "indexing_queue_oldest_pending_age_seconds";
    text.gauge(name, "How long the oldest box has been waiting.");
    text.sample(name, &[], figures.oldest_pending.unwrap_or_default().as_secs_f64());
}

/// What the workers of this process ran, under our names and the documents'.
fn runs(text: &mut Text, app: &App) {
    let catalog = app.client.catalog();
    let series = app.client.meter().runs();
    let named: Vec<(&str, &str, &RunSeries)> = series
        .iter()
        .filter_map(|series| {
            let kind = catalog.kind(series.kind)?.spec.name.as_str();
            Some((kind, catalog.queue(series.queue)?.spec.name.as_str(), series))
        })
        .collect();
    for (name, kind_label) in
        [("windlass_job_run_seconds", "kind"), ("job_execution_duration_seconds", "job_type")]
    {
        text.histogram(name, "The handler's own time per run, in this process.");
        for (kind, queue, series) in &named {
            let labels = [(kind_label, *kind), ("queue", *queue), ("status", series.status)];
            let runs = &series.runs;
            text.buckets(name, &labels, &RUN_BUCKETS, &runs.buckets, runs.time.as_secs_f64());
        }
    }
    for (name, kind_label) in [("windlass_job_retries_total", "kind"), ("job_retry_total", "job_type")] {
        text.counter(name, "Runs that ended in another try, in this process.");
        for (kind, queue, series) in named.iter().filter(|(_, _, series)| series.status == "retry") {
            text.sample(name, &[(kind_label, *kind), ("queue", *queue)], series.runs.count as f64);
        }
    }
}

fn answers(text: &mut Text, app: &App) {
    let name = "windlass_http_requests_total";
    text.counter(name, "Answers by route and class of status.");
    for route in app.counters.routes() {
        for (class, count) in route.classes() {
            let labels = [("method", route.method.as_str()), ("route", route.path), ("status", class)];
            text.sample(name, &labels, count as f64);
        }
    }
}
