//! Metrics of indexing: its queues, and the work of this process.

use std::sync::Arc;

use windlass_core::store::{DEAD_SHOWN, DeadCount, QueueState};
use windlass_core::{Store, StoreError, Strategy};
use windlass_pack::Registry;
use windlass_pack::metrics::{Labels, Samples, Series};

use super::IndexContext;
use crate::Indexing;
use crate::service::{ASYNC_KIND, BATCH_KIND, EntityStats, Meter};

const STATE: [Series; 10] = [
    Series::gauge(
        "windlass_entities_pending",
        "Entities whose newest content is not in the index, counted up to 10000.",
    ),
    Series::gauge("windlass_entities_indexed", "Entities whose newest content is in the index."),
    Series::gauge("indexing_queue_pending", "Indexing jobs that wait."),
    Series::gauge("indexing_queue_processing", "Indexing jobs that run."),
    Series::gauge("indexing_queue_failed", "Indexing jobs that failed."),
    Series::gauge("indexing_queue_dead_letter", "Indexing jobs that ran out of attempts."),
    Series::gauge("indexing_queue_sync", "Indexing jobs of the strategy sync; always 0."),
    Series::gauge("indexing_queue_async", "Indexing jobs of the strategy async that wait."),
    Series::gauge("indexing_queue_batch", "Indexing jobs of the strategy batch that wait."),
    Series::gauge("indexing_queue_oldest_pending_age_seconds", "Age of the oldest waiting indexing job."),
];

const ATTEMPTS: [&str; 2] = ["windlass_indexing_attempts_total", "indexing_attempts_total"];
const DURATIONS: [&str; 2] = ["windlass_indexing_duration_seconds", "indexing_duration_seconds"];
const SEARCHABLE: &str = "windlass_write_to_searchable_seconds";

pub(super) fn register(context: &IndexContext, indexing: &Indexing, registry: &mut Registry) {
    let state = context.clone();
    registry.metrics(&STATE, move || {
        let context = state.clone();
        async move { collect(context).await }
    });
    let mut series: Vec<Series> = Vec::new();
    series.extend(ATTEMPTS.map(|name| Series::counter(name, "Attempts of this process to index an entity.")));
    let help = "Duration of an attempt to index an entity, for the whole batch it was in.";
    series.extend(DURATIONS.map(|name| Series::histogram(name, help)));
    let help =
        "Time from an entity's write to the commit of its vector; for sync, from the call to the commit.";
    series.push(Series::histogram(SEARCHABLE, help));
    let indexing = indexing.clone();
    registry.metrics(&series, move || {
        let meter: Arc<Meter> = indexing.meter();
        async move { Ok(indexed(&meter)) }
    });
}

async fn collect(context: IndexContext) -> Result<Samples, String> {
    let entities = context.entities().map_err(|error| error.chain())?;
    let stats = entities.stats().await.map_err(|error| error.chain())?;
    let store = context.client().map_err(|error| error.chain())?.store();
    state(store.as_ref(), stats).await.map_err(|error| error.chain())
}

async fn state(store: &dyn Store, stats: EntityStats) -> Result<Samples, StoreError> {
    let queues = store.queues().await?;
    let dead = store.dead_letters(DEAD_SHOWN).await?;
    let named = |name: &str| queues.iter().find(|queue| queue.spec.name == name);
    let boxes: Vec<&QueueState> = [ASYNC_KIND, BATCH_KIND].into_iter().filter_map(named).collect();
    let waiting = |queue: &QueueState| queue.depth + queue.scheduled;
    let of = |strategy| match strategy {
        Strategy::Sync => 0,
        Strategy::Async => named(ASYNC_KIND).map_or(0, waiting),
        Strategy::Batch => named(BATCH_KIND).map_or(0, waiting),
    };
    let ended = |count: fn(&DeadCount) -> u64| -> u64 {
        dead.iter().filter(|one| boxes.iter().any(|queue| queue.id == one.queue)).map(count).sum()
    };
    let oldest = boxes.iter().filter_map(|queue| queue.oldest).max().unwrap_or_default();
    let values = [
        stats.pending as f64,
        stats.indexed as f64,
        boxes.iter().map(|queue| waiting(queue)).sum::<u64>() as f64,
        boxes.iter().map(|queue| queue.running).sum::<u64>() as f64,
        ended(|count| count.failed) as f64,
        ended(|count| count.dead_letter) as f64,
        of(Strategy::Sync) as f64,
        of(Strategy::Async) as f64,
        of(Strategy::Batch) as f64,
        oldest.as_secs_f64(),
    ];
    let mut samples = Samples::default();
    for (series, value) in STATE.iter().zip(values) {
        samples.value(series.name, Labels::new(), value);
    }
    Ok(samples)
}

/// Each value is exported with and without the prefix `windlass_`.
fn indexed(meter: &Meter) -> Samples {
    let mut samples = Samples::default();
    let attempts = meter.attempts();
    for name in ATTEMPTS {
        for (entity_type, strategy, attempts) in &attempts {
            for (success, count) in [("true", attempts.succeeded), ("false", attempts.failed)] {
                let mut labels = labels(entity_type, *strategy);
                labels.push(("success", success.to_owned()));
                samples.value(name, labels, count as f64);
            }
        }
    }
    for name in DURATIONS {
        for (entity_type, strategy, attempts) in &attempts {
            samples.times(name, labels(entity_type, *strategy), &attempts.took);
        }
    }
    for (strategy, took) in meter.write_to_searchable() {
        samples.times(SEARCHABLE, vec![("strategy", strategy.name().to_owned())], &took);
    }
    samples
}

fn labels(entity_type: &str, strategy: Strategy) -> Labels {
    vec![("entity_type", entity_type.to_owned()), ("strategy", strategy.name().to_owned())]
}
