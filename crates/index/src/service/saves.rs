//! Concurrent single saves share a transaction.
//!
//! On Postgres one save is a transaction of about six round trips, which dominates the cost at thousands of saves a
//! second. Sharing is invisible to callers: a shared transaction that fails or meets a held lock is rolled back, and
//! then each caller saves alone. So no caller waits for the row of another, or fails with it.

use std::sync::{Arc, Weak};

use windlass_core::entity::{BoxKinds, EntityWrite};
use windlass_core::store::Saved;
use windlass_core::{Store, StoreError};
use windlass_engine::Coalescer;

use super::EntityError;

/// Most writes in one shared transaction.
const MOST: usize = 256;
/// Concurrent shared transactions: one waits for its commit while the next fills.
const AT_ONCE: usize = 2;

pub(super) struct Saves {
    boxes: BoxKinds,
    shared: Coalescer<EntityWrite, SharedOutcome>,
}

enum SharedOutcome {
    Saved(Saved),
    /// The write may have been committed.
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
                    None => writes.iter().map(|_| SharedOutcome::Undone).collect(),
                }
            }
        });
        Saves { boxes, shared }
    }

    pub(super) async fn save(&self, store: &dyn Store, write: &EntityWrite) -> Result<Saved, EntityError> {
        // A write with an idempotency key may wait for the transaction that holds the key, so it is not shared.
        if write.idempotency.is_none() {
            match self.shared.ask(write.clone()).await {
                Some(SharedOutcome::Saved(saved)) => return Ok(saved),
                Some(SharedOutcome::Unavailable(error)) => return Err(error.into()),
                Some(SharedOutcome::Undone) | None => {}
            }
        }
        let saved = store.save(&self.boxes, [write.clone()].into()).await?;
        saved.into_iter().next().ok_or(EntityError::Unanswered)
    }
}

async fn save(store: &dyn Store, boxes: &BoxKinds, writes: Arc<[EntityWrite]>) -> Vec<SharedOutcome> {
    match store.save_shared(boxes, writes.clone()).await {
        Ok(saved) => saved.into_iter().map(SharedOutcome::Saved).collect(),
        Err(error @ StoreError::Unavailable { store, op, .. }) => {
            let each = |_| {
                SharedOutcome::Unavailable(StoreError::Unavailable {
                    store,
                    op,
                    source: error.chain().into(),
                })
            };
            writes.iter().map(each).collect()
        }
        Err(error) => {
            tracing::debug!(
                error = error.chain(),
                writes = writes.len(),
                "a shared transaction failed; its saves are tried one by one"
            );
            writes.iter().map(|_| SharedOutcome::Undone).collect()
        }
    }
}
