//! Keeps the index up to date with the store's change feed.
//!
//! Owns the position in the feed. Concurrent calls of `drain` share one read: a call is satisfied by any read of the
//! feed that began after the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};
use windlass_core::Store;
use windlass_core::store::FeedMark;

use super::EntityError;
use super::types::Types;
use crate::live::LiveIndex;

/// Changes read from the feed at once: a few milliseconds of indexing.
const PAGE: u32 = 250;
/// The same for the first drain, which reads everything before it answers any search.
const FIRST_PAGE: u32 = 1_000;
/// Bulk writers yield to searches for this long after the latest search.
const SEARCH_WINDOW: Duration = Duration::from_secs(1);

pub(crate) struct Follower {
    pub(crate) live: Arc<LiveIndex>,
    space: String,
    types: Arc<Types>,
    /// Number of calls of `drain`; each call takes the next number as its ticket.
    asked: AtomicU64,
    /// The first drain is done, so this process searches.
    begun: AtomicBool,
    /// Start of the latest search in milliseconds since `made`; 0 before the first.
    searched: AtomicU64,
    made: Instant,
    read: Mutex<FeedPosition>,
    nudge: Notify,
}

#[derive(Default)]
struct FeedPosition {
    mark: FeedMark,
    /// Tickets up to this one are satisfied.
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
            searched: AtomicU64::new(0),
            made: Instant::now(),
            read: Mutex::default(),
            nudge: Notify::new(),
        }
    }

    /// Wakes the background drain, because there may be changes.
    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    pub(crate) async fn nudged(&self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.nudge.notified()).await;
    }

    /// Notes that a search runs, so that bulk writers yield to it.
    pub(crate) fn search_begins(&self) {
        self.searched.store(self.now().max(1), Ordering::Relaxed);
    }

    pub(crate) fn is_searched(&self) -> bool {
        let searched = self.searched.load(Ordering::Relaxed);
        searched > 0 && self.now().saturating_sub(searched) < SEARCH_WINDOW.as_millis() as u64
    }

    fn now(&self) -> u64 {
        self.made.elapsed().as_millis() as u64
    }

    /// Drains if this process searches, so that a bulk writer does not outrun the index.
    pub(crate) async fn keep_up(&self, store: &dyn Store) {
        if self.begun.load(Ordering::Relaxed)
            && let Err(error) = self.drain(store).await
        {
            tracing::debug!(error = error.chain(), "the change feed could not be read; it is tried again");
        }
    }

    /// Returns when everything committed before the call is in the index. True if there were changes.
    pub(crate) async fn drain(&self, store: &dyn Store) -> Result<bool, EntityError> {
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut read = self.read.lock().await;
        if read.served >= ticket {
            return Ok(true);
        }
        let page = if self.begun.load(Ordering::Relaxed) { PAGE } else { FIRST_PAGE };
        let mut found = false;
        loop {
            // Calls made up to now are satisfied if this read is the last.
            let serves = self.asked.load(Ordering::SeqCst);
            let changes = store.changes(&read.mark, &self.space, page).await?;
            found |= !changes.entities.is_empty();
            if !changes.entities.is_empty() {
                // Loaded after the changes, so that each entity is read with its type as of its save or later.
                self.types.load(store).await?;
                let (live, types) = (self.live.clone(), self.types.clone());
                let apply = move || live.apply(changes.entities, |id| types.numbered(id));
                let applied = tokio::task::spawn_blocking(apply).await;
                applied.map_err(|error| EntityError::Index(error.to_string()))?;
            }
            read.mark = changes.mark;
            if !changes.more {
                read.served = serves;
                break;
            }
        }
        self.begun.store(true, Ordering::Relaxed);
        Ok(found)
    }
}
