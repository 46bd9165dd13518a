//! `/metrics`: this process and its database, in Prometheus text format.
//!
//! Owns the name, type and help text of every series. Canonical names start with `windlass_`. Legacy names, which
//! existing dashboards use, are served too. Values that cannot be read are left out and `windlass_store_up` is 0: a
//! scrape never fails because of the database.

mod budgets;
mod names;
mod parts;
mod process;
mod text;

use windlass_core::store::QueueState;
use windlass_core::{JobState, StoreError};
use windlass_engine::meter::{Histogram, RUN_BUCKETS, RunSeries};
use windlass_engine::operate::desired;

use crate::app::App;
use crate::view::ResourceTotal;
pub(crate) use names::names;
use text::Text;

const FAILED: JobState = JobState::Failed;
const DEAD: JobState = JobState::DeadLetter;
/// Legacy gauges of permits in use, by resource.
const UTILIZATION: &[(&str, &str)] = &[("screenshot_concurrency_utilization", "screenshot")];

pub(crate) async fn render(app: &App) -> String {
    let mut text = Text::new(&app.options.application);
    let store = app.client.store_name();
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
    budgets::process(&mut text, app.client.meter());
    answers(&mut text, app);
    process::add(&mut text);
    for metrics in &app.parts.metrics {
        parts::add(&mut text, metrics).await;
    }
    text.into_string()
}

/// Everything read from the database for one scrape.
struct Figures {
    queues: Vec<Figure>,
    workers: usize,
    resources: Vec<ResourceTotal>,
    budgets: Vec<budgets::Figure>,
}

struct Figure {
    queue: QueueState,
    p95: Option<f64>,
    desired_workers: u64,
    failed: u64,
    dead: u64,
}

async fn figures(app: &App) -> Result<Figures, StoreError> {
    let (measured, dead) = (app.stats.measured().await?, app.stats.dead().await?);
    let figure = |queue: QueueState| {
        let measured = measured.get(&queue.id);
        let p95 = measured.and_then(|measured| measured.p95).map(|p95| p95.as_secs_f64());
        let desired_workers = desired(&queue, measured);
        let (failed, dead) = dead.get(&queue.id).map_or((0, 0), |count| (count.failed, count.dead_letter));
        Figure { queue, p95, desired_workers, failed, dead }
    };
    let queues = app.stats.queues().await?.into_iter().map(figure).collect();
    let workers = app.client.workers().await?;
    let (resources, workers) = (ResourceTotal::of(&workers), workers.len());
    let budgets = app.client.budgets().await?;
    Ok(Figures { queues, workers, resources, budgets })
}

fn database(text: &mut Text, figures: &Figures) {
    type Read = fn(&Figure) -> Option<f64>;
    let per_queue: [(&str, &str, Read); 11] = [
        ("windlass_queue_depth", "Jobs that are due, counted up to 10000.", |f| Some(f.queue.depth as f64)),
        ("windlass_queue_running", "Jobs that are leased.", |f| Some(f.queue.running as f64)),
        ("windlass_queue_scheduled", "Jobs whose run_at is in the future, counted up to 10000.", |f| {
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
            "Upper bound of the time from due to finished for 95 % of the last hour's jobs.",
            |f| f.p95,
        ),
        ("windlass_queue_sla_seconds", "Target time from due to finished for 95 % of jobs.", |f| {
            f.queue.spec.sla.map(|sla| sla.as_secs_f64())
        }),
        (
            "windlass_queue_desired_workers",
            "Worker processes that would keep the SLA: the signal for an autoscaler.",
            |f| Some(f.desired_workers as f64),
        ),
        ("job_queue_backlog_total", "Jobs that are due, counted up to 10000.", |f| {
            Some(f.queue.depth as f64)
        }),
        (
            "dead_letter_queue_size",
            "Failed jobs and dead letters, counted among the newest 10000 of all queues.",
            |f| Some((f.failed + f.dead) as f64),
        ),
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
    let help = "Failed jobs and dead letters, counted among the newest 10000 of all queues.";
    text.gauge(name, help);
    for figure in &figures.queues {
        for (state, count) in [(FAILED, figure.failed), (DEAD, figure.dead)] {
            text.sample(name, &[("queue", &figure.queue.spec.name), ("state", state.name())], count as f64);
        }
    }
    text.gauge("windlass_workers", "Worker processes the database knows to be alive.");
    text.sample("windlass_workers", &[], figures.workers as f64);
    permits(text, &figures.resources);
    budgets::database(text, &figures.budgets);
}

/// Across all workers, because processes that only work serve no metrics.
fn permits(text: &mut Text, resources: &[ResourceTotal]) {
    type Read = fn(&ResourceTotal) -> u64;
    let gauges: [(&str, &str, Read); 2] = [
        ("windlass_resource_permits", "Permits of all worker processes together.", |of| of.permits),
        ("windlass_resource_permits_in_use", "Permits held by leased jobs.", |of| of.in_use),
    ];
    for (name, help, read) in gauges {
        text.gauge(name, help);
        for of in resources {
            text.sample(name, &[("resource", &of.resource)], read(of) as f64);
        }
    }
    for (name, resource) in UTILIZATION {
        let help = format!("Permits of the resource {resource} in use per worker process, on average.");
        text.gauge(name, &help);
        let total = resources.iter().find(|of| of.resource == *resource);
        let used = total.map_or(0.0, |of| of.in_use as f64 / of.workers.max(1) as f64);
        text.sample(name, &[], used);
    }
}

/// Runs of this process's workers, under canonical and legacy names.
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
            times(text, name, &labels, &series.runs);
        }
    }
    for (name, kind_label) in [("windlass_job_retries_total", "kind"), ("job_retry_total", "job_type")] {
        text.counter(name, "Runs in this process that ended with a retry.");
        for (kind, queue, series) in named.iter().filter(|(_, _, series)| series.status == "retry") {
            text.sample(name, &[(kind_label, *kind), ("queue", *queue)], series.runs.count as f64);
        }
    }
}

fn times(text: &mut Text, name: &str, labels: &[(&str, &str)], times: &Histogram) {
    text.buckets(name, labels, &RUN_BUCKETS, &times.buckets, times.time.as_secs_f64());
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
