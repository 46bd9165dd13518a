//! Figures of entities for `/v1/stats` and the metrics.

use std::pin::Pin;

use windlass_core::{StoreError, Strategy};
use windlass_index::service::{ASYNC_KIND, BATCH_KIND};
use windlass_index::{EntityError, Meter};

use super::Desk;
use crate::app::{IndexFigures, Indexing};

impl IndexFigures for Desk {
    fn figures(&self) -> Pin<Box<dyn Future<Output = Result<Indexing, StoreError>> + Send + '_>> {
        Box::pin(async move {
            let stats = self.entities.stats().await.map_err(of_entities)?;
            Ok(Indexing { pending_entities: stats.pending, indexed_entities: stats.indexed })
        })
    }

    fn queue_of(&self, strategy: Strategy) -> Option<&str> {
        match strategy {
            Strategy::Sync => None,
            Strategy::Async => Some(ASYNC_KIND),
            Strategy::Batch => Some(BATCH_KIND),
        }
    }

    fn meter(&self) -> Option<&Meter> {
        Some(self.entities.meter())
    }
}

fn of_entities(error: EntityError) -> StoreError {
    match error {
        EntityError::Store(error) => error,
        other => StoreError::Corrupt { what: other.to_string() },
    }
}
