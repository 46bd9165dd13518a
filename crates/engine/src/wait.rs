//! Waiting for a job's end: a signal for jobs of this process, polls with growing pauses for those of other workers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use windlass_core::{JobId, JobRecord, Store, StoreError};

const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(500);
/// Longer waits are cut to this: adding them to an instant might overflow.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

#[derive(Default)]
pub(crate) struct Waiters {
    waiting: Mutex<HashMap<JobId, (usize, Arc<Notify>)>>,
}

/// How a wait ended.
#[derive(Clone, Debug)]
pub enum Waited {
    Finished(Box<JobRecord>),
    /// The time was up; the job goes on.
    TimedOut,
    /// No such job, or it was deleted meanwhile.
    Unknown,
}

impl Waiters {
    pub(crate) fn finished(&self, id: JobId) {
        if let Ok(waiting) = self.waiting.lock()
            && let Some((_, notify)) = waiting.get(&id)
        {
            notify.notify_waiters();
        }
    }

    pub(crate) async fn wait(
        &self,
        store: &dyn Store,
        id: JobId,
        patience: Duration,
    ) -> Result<Waited, StoreError> {
        let entry = WaiterEntry::add(self, id);
        let deadline = Instant::now() + patience.min(LONGEST);
        let mut pause = FIRST_LOOK;
        loop {
            // Armed before the read, so that an end between the read and the sleep is not missed.
            let signal = entry.notify.notified();
            match store.job(id).await? {
                None => return Ok(Waited::Unknown),
                Some(detail) if detail.job.state.is_finished() => {
                    return Ok(Waited::Finished(Box::new(detail.job)));
                }
                Some(_) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Waited::TimedOut);
            }
            let _ = tokio::time::timeout(pause.min(left), signal).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }
}

struct WaiterEntry<'a> {
    waiters: &'a Waiters,
    id: JobId,
    notify: Arc<Notify>,
}

impl<'a> WaiterEntry<'a> {
    fn add(waiters: &'a Waiters, id: JobId) -> WaiterEntry<'a> {
        let notify = match waiters.waiting.lock() {
            Ok(mut waiting) => {
                let entry = waiting.entry(id).or_default();
                entry.0 += 1;
                entry.1.clone()
            }
            Err(_) => Arc::default(),
        };
        WaiterEntry { waiters, id, notify }
    }
}

impl Drop for WaiterEntry<'_> {
    fn drop(&mut self) {
        if let Ok(mut waiting) = self.waiters.waiting.lock()
            && let Some(entry) = waiting.get_mut(&self.id)
        {
            entry.0 -= 1;
            if entry.0 == 0 {
                waiting.remove(&self.id);
            }
        }
    }
}
