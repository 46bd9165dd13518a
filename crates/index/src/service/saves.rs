//! Single saves of many callers share a transaction.
//!
//! On Postgres a save by itself is a transaction of half a dozen round trips, which at thousands a second is most of what
//! process and server do. No caller notices: a shared transaction that fails, or meets a lock that is held, leaves nothing
//! behind, and then each caller saves its own. So none waits for another's row or fails with it.

use std::sync::{Arc, Weak};

use windlass_core::entity::{BoxKinds, EntityWrite};
use windlass_core::store::Saved;
use windlass_core::{Store, StoreError};
use windlass_engine::Coalescer;

use super::EntityError;

/// Writes of one shared transaction.
const MOST: usize = 256;
/// Shared transactions at once: one more than the one that waits for its commit.
const AT_ONCE: usize = 2;

pub(super) struct Saves {
    boxes: BoxKinds,
    shared: Coalescer<EntityWrite, Shared>,
}

enum Shared {
    Saved(Saved),
    /// It may have been written.
    Unavailable(StoreError),
    /// Nothing was written.
    Undone,
}

impl Saves {
    pub(super) fn start(store: Weak<dyn Store>, boxes: BoxKinds) -> Saves {
        let of_all = boxes.clone();
        let shared = Coalescer::start(MOST, AT_ONCE, move |writes: Vec<EntityWrite>| {
            // Held only during a call, so that the database is closed when the client is dropped.
            let (store, boxes) = (store.upgrade(), of_all.clone());
            async move {
                match store {
                    Some(store) => save(store.as_ref(), &boxes, writes.into()).await,
                    None => writes.iter().map(|_| Shared::Undone).collect(),
                }
            }
        });
        Saves { boxes, shared }
    }

    pub(super) async fn save(&self, store: &dyn Store, write: &EntityWrite) -> Result<Saved, EntityError> {
        // A write with an idempotency key waits until the transaction that holds the key ends, so it shares none.
        if write.idempotency.is_none() {
            match self.shared.ask(write.clone()).await {
                Some(Shared::Saved(saved)) => return Ok(saved),
                Some(Shared::Unavailable(error)) => return Err(error.into()),
                Some(Shared::Undone) | None => {}
            }
        }
        let saved = store.save(&self.boxes, [write.clone()].into()).await?;
        saved.into_iter().next().ok_or(EntityError::Unanswered)
    }
}

async fn save(store: &dyn Store, boxes: &BoxKinds, writes: Arc<[EntityWrite]>) -> Vec<Shared> {
    match store.save_shared(boxes, writes.clone()).await {
        Ok(saved) => saved.into_iter().map(Shared::Saved).collect(),
        Err(error @ StoreError::Unavailable { store, op, .. }) => {
            let each =
                |_| Shared::Unavailable(StoreError::Unavailable { store, op, source: error.chain().into() });
            writes.iter().map(each).collect()
        }
        Err(error) => {
            tracing::debug!(
                error = error.chain(),
                writes = writes.len(),
                "shared saves are tried one by one"
            );
            writes.iter().map(|_| Shared::Undone).collect()
        }
    }
}
