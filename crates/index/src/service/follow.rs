//! Keeps the index in step with the store's change feed.
//!
//! Owns the mark. Any number of callers may ask for a drain; each is served by one that began after it asked, and those
//! that wait together share one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use windlass_core::Store;
use windlass_core::store::FeedMark;

use super::EntityError;
use super::types::Types;
use crate::live::LiveIndex;

const PAGE: u32 = 500;

pub(crate) struct Follower {
    pub(crate) live: Arc<LiveIndex>,
    space: String,
    types: Arc<Types>,
    /// Drains asked for so far.
    asked: AtomicU64,
    /// The index has been in step once: this process searches.
    begun: AtomicBool,
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
            begun: AtomicBool::new(false),
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

    /// Lets a writer of many go no faster than the index. Nothing to wait for where nobody searches.
    pub(crate) async fn keep_up(&self, store: &dyn Store) {
        if self.begun.load(Ordering::Relaxed)
            && let Err(error) = self.drain(store).await
        {
            tracing::debug!(error = error.chain(), "the change feed could not be read; the next look will");
        }
    }

    /// Returns when everything committed before the call is in the index; says whether it found anything new.
    pub(crate) async fn drain(&self, store: &dyn Store) -> Result<bool, EntityError> {
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut read = self.read.lock().await;
        if read.served >= ticket {
            return Ok(true);
        }
        let serves = self.asked.load(Ordering::SeqCst);
        let mut found = false;
        loop {
            let changes = store.changes(&read.mark, &self.space, PAGE).await?;
            found |= !changes.entities.is_empty();
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
        self.begun.store(true, Ordering::Relaxed);
        Ok(found)
    }
}
