//! Depth caps: refuses enqueues into a queue that holds too much.
//!
//! A capped queue is counted at most once a second per process while it has room, and again before an enqueue is
//! refused. Between counts each process adds its own enqueues. So one producer meets the cap exactly; several may
//! exceed it by what they enqueue within that second. Uncapped queues cost nothing.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use windlass_core::{NewJob, QueueId, Store, StoreError};

use crate::{Catalog, EnqueueError};

const FRESH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct DepthCaps {
    counted: Mutex<HashMap<QueueId, DepthCount>>,
    /// One count at a time: callers that come meanwhile use its result.
    counting: tokio::sync::Mutex<()>,
}

struct DepthCount {
    at: Instant,
    depth: u64,
}

impl DepthCaps {
    /// Takes room for `jobs` or refuses them all.
    pub(crate) async fn admit(
        &self,
        store: &dyn Store,
        catalog: &Catalog,
        jobs: &[NewJob],
    ) -> Result<(), EnqueueError> {
        let mut wanted: HashMap<QueueId, u64> = HashMap::new();
        for job in jobs {
            if catalog.queue(job.queue).is_some_and(|q| q.spec.depth_cap.is_some()) {
                *wanted.entry(job.queue).or_default() += 1;
            }
        }
        for (queue, more) in wanted {
            let Some(state) = catalog.queue(queue) else { continue };
            let Some(cap) = state.spec.depth_cap else { continue };
            if !self.fits(store, queue, more, cap).await? {
                let retry_after = FRESH;
                return Err(EnqueueError::DepthCap { queue: state.spec.name.clone(), cap, retry_after });
            }
        }
        Ok(())
    }

    async fn fits(&self, store: &dyn Store, queue: QueueId, more: u64, cap: u64) -> Result<bool, StoreError> {
        if let Some(fits) = self.take(queue, more, cap, false) {
            return Ok(fits);
        }
        let _counting = self.counting.lock().await;
        if let Some(fits) = self.take(queue, more, cap, false) {
            return Ok(fits);
        }
        let depth = store.depth(queue, cap.saturating_add(1)).await?;
        if let Ok(mut counted) = self.counted.lock() {
            counted.insert(queue, DepthCount { at: Instant::now(), depth });
        }
        Ok(self.take(queue, more, cap, true).unwrap_or(true))
    }

    /// `None` when the count is too old, or when it says no and the depth may have fallen since.
    fn take(&self, queue: QueueId, more: u64, cap: u64, just_counted: bool) -> Option<bool> {
        let mut counted = self.counted.lock().ok()?;
        let entry = counted.get_mut(&queue)?;
        if !just_counted && entry.at.elapsed() > FRESH {
            return None;
        }
        if entry.depth + more <= cap {
            entry.depth += more;
            return Some(true);
        }
        just_counted.then_some(false)
    }
}
