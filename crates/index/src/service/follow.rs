//! Keeps the index in step with the store's change feed.
//!
//! Owns the mark. Any number of callers may ask for a drain; each is served by one that began after it asked, and those
//! that wait together share one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use windlass_core::Store;
use windlass_core::store::FeedMark;

use super::EntityError;
use super::types::Types;
use crate::live::LiveIndex;

const PAGE: u32 = 1_000;

pub(crate) struct Follower {
    pub(crate) live: Arc<LiveIndex>,
    space: String,
    types: Arc<Types>,
    /// Drains asked for so far.
    asked: AtomicU64,
    read: Mutex<Read>,
    nudge: Notify,
}

#[derive(Default)]
struct Read {
    mark: FeedMark,
    /// Every drain asked for up to here has been served.
    served: u64,
}

impl Follower {
    pub(crate) fn new(space: &str, dimension: usize, types: Arc<Types>) -> Follower {
        Follower {
            live: Arc::new(LiveIndex::new(dimension)),
            space: space.to_owned(),
            types,
            asked: AtomicU64::new(0),
            read: Mutex::default(),
            nudge: Notify::new(),
        }
    }

    /// There may be something new.
    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    pub(crate) async fn nudged(&self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.nudge.notified()).await;
    }

    /// Returns when everything committed before the call is in the index.
    pub(crate) async fn drain(&self, store: &dyn Store) -> Result<(), EntityError> {
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut read = self.read.lock().await;
        if read.served >= ticket {
            return Ok(());
        }
        let serves = self.asked.load(Ordering::SeqCst);
        loop {
            let changes = store.changes(&read.mark, &self.space, PAGE).await?;
            let unknown = |id| self.types.numbered(id).is_none();
            if changes.entities.iter().any(|changed| unknown(changed.entity_type)) {
                self.types.load(store).await?;
            }
            if !changes.entities.is_empty() {
                let (live, types) = (self.live.clone(), self.types.clone());
                let apply = move || live.apply(changes.entities, |id| types.numbered(id));
                let applied = tokio::task::spawn_blocking(apply).await;
                applied.map_err(|error| EntityError::Index(error.to_string()))?;
            }
            read.mark = changes.mark;
            if !changes.more {
                break;
            }
        }
        read.served = serves;
        Ok(())
    }
}
