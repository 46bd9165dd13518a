//! Figures of entities for `/v1/stats` and the metrics.

use std::pin::Pin;

use windlass_core::StoreError;
use windlass_core::store::{JobFilter, QueueState};
use windlass_index::EntityError;
use windlass_index::service::{ASYNC_KIND, BATCH_KIND};

use super::Desk;
use crate::app::{IndexFigures, Indexing};

impl IndexFigures for Desk {
    fn figures(&self) -> Pin<Box<dyn Future<Output = Result<Indexing, StoreError>> + Send + '_>> {
        Box::pin(async move {
            let stats = self.entities.stats().await.map_err(of_entities)?;
            let store = self.client.store();
            let queues = store.queues().await?;
            let of = |name: &str| queues.iter().find(|queue| queue.spec.name == name);
            let boxes: Vec<&QueueState> = [ASYNC_KIND, BATCH_KIND].into_iter().filter_map(of).collect();
            let depth = |queue: Option<&QueueState>| queue.map_or(0, |queue| queue.depth + queue.scheduled);
            let mut figures = Indexing {
                pending_entities: stats.pending,
                indexed_entities: stats.indexed,
                queue_pending: boxes.iter().map(|queue| depth(Some(queue))).sum(),
                queue_processing: boxes.iter().map(|queue| queue.running).sum(),
                queue_async: depth(of(ASYNC_KIND)),
                queue_batch: depth(of(BATCH_KIND)),
                oldest_pending: boxes.iter().filter_map(|queue| queue.oldest).max(),
                ..Indexing::default()
            };
            for queue in boxes {
                let count = |state| {
                    let filter =
                        JobFilter { states: vec![state], queue: Some(queue.id), ..JobFilter::default() };
                    async move { store.count(&filter).await }
                };
                figures.queue_failed += count(windlass_core::JobState::Failed).await?;
                figures.queue_dead_letter += count(windlass_core::JobState::DeadLetter).await?;
            }
            Ok(figures)
        })
    }
}

fn of_entities(error: EntityError) -> StoreError {
    match error {
        EntityError::Store(error) => error,
        other => StoreError::Corrupt { what: other.to_string() },
    }
}
