//! Keeps the index in step with the store's change feed.
//!
//! Owns the mark. Any number of callers may ask for a drain; each is served by one whose last look at the feed began after
//! it asked, and those that wait together share one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};
use windlass_core::Store;
use windlass_core::store::FeedMark;

use super::EntityError;
use super::types::Types;
use crate::live::LiveIndex;

/// What is put into the index between two looks at the feed: some milliseconds of work.
const PAGE: u32 = 250;
/// The same at the start, when everything is read and nobody is answered before the end.
const FIRST_PAGE: u32 = 1_000;
/// How long after a search others are expected.
const GIVES_WAY: Duration = Duration::from_secs(1);

pub(crate) struct Follower {
    pub(crate) live: Arc<LiveIndex>,
    space: String,
    types: Arc<Types>,
    /// Drains asked for so far.
    asked: AtomicU64,
    /// The index has been in step once: this process searches.
    begun: AtomicBool,
    /// When the latest search asked, in milliseconds since this was made; 0 before the first.
    searched: AtomicU64,
    made: Instant,
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
            searched: AtomicU64::new(0),
            made: Instant::now(),
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

    /// Somebody waits for an answer; whoever writes in bulk gives way for a while.
    pub(crate) fn search_begins(&self) {
        self.searched.store(self.now().max(1), Ordering::Relaxed);
    }

    pub(crate) fn is_searched(&self) -> bool {
        let searched = self.searched.load(Ordering::Relaxed);
        searched > 0 && self.now().saturating_sub(searched) < GIVES_WAY.as_millis() as u64
    }

    fn now(&self) -> u64 {
        self.made.elapsed().as_millis() as u64
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
        let page = if self.begun.load(Ordering::Relaxed) { PAGE } else { FIRST_PAGE };
        let mut found = false;
        loop {
            // Whoever has asked by now is served if this look is the last.
            let serves = self.asked.load(Ordering::SeqCst);
            let changes = store.changes(&read.mark, &self.space, page).await?;
            found |= !changes.entities.is_empty();
            if !changes.entities.is_empty() {
                // After the changes, so that each meets its type as it was when it was saved, or later.
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
