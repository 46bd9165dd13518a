//! The heartbeat of one registered worker, in a task of its own so that a busy dispatcher cannot delay it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use windlass_core::{Store, StoreError, WorkerId};

use super::dispatch::Event;

/// Beats per lease: two may fail before the lease is in danger.
const BEATS_PER_LEASE: u32 = 4;

/// Stops with its owner.
pub(super) struct Heart {
    task: JoinHandle<()>,
    at_once: Arc<Notify>,
}

impl Heart {
    pub(super) fn start(
        store: Arc<dyn Store>,
        worker: WorkerId,
        lease: Duration,
        events: mpsc::UnboundedSender<Event>,
    ) -> Heart {
        let at_once = Arc::new(Notify::new());
        let task = tokio::spawn(beat(store, worker, lease, events, at_once.clone()));
        Heart { task, at_once }
    }

    /// Something happened that this worker's registration may not have survived.
    pub(super) fn beat_now(&self) {
        self.at_once.notify_one();
    }

    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends when the worker was declared dead or could not renew in time, and tells the dispatcher so.
async fn beat(
    store: Arc<dyn Store>,
    worker: WorkerId,
    lease: Duration,
    events: mpsc::UnboundedSender<Event>,
    at_once: Arc<Notify>,
) {
    let every = lease / BEATS_PER_LEASE;
    let mut renewed = Instant::now();
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tick.tick().await;
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = at_once.notified() => {}
        }
        let asked = Instant::now();
        // The renewal itself must not outlast what is left of the lease.
        let left = lease.saturating_sub(renewed.elapsed());
        match tokio::time::timeout(left.max(Duration::from_millis(50)), store.heartbeat(worker)).await {
            Ok(Ok(true)) => renewed = asked,
            Ok(Ok(false)) => {
                let _ = events.send(Event::Lost { worker, why: "others declared this worker dead" });
                return;
            }
            // A schema that is made again may give this worker's number to another worker.
            Ok(Err(StoreError::SchemaMissing)) => {
                let _ = events.send(Event::Lost { worker, why: "the schema is gone" });
                return;
            }
            Ok(Err(error)) => tracing::warn!(%worker, error = error.chain(), "heartbeat failed"),
            Err(_) => tracing::warn!(%worker, "heartbeat timed out"),
        }
        if renewed.elapsed() >= lease {
            let _ = events.send(Event::Lost { worker, why: "the lease could not be renewed in time" });
            return;
        }
    }
}
