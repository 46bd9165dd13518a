//! The heartbeat of one incarnation, in a task of its own so that a busy dispatcher cannot delay it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use windlass_core::{Store, StoreError, WorkerId};

use super::dispatch::Event;

/// Beats per lease: two may fail before the lease is in danger.
const BEATS_PER_LEASE: u32 = 4;

/// Ends when the worker was declared dead or could not renew in time; tells the dispatcher so. Beats at once when
/// `doubt` is notified: something happened that this worker may not have survived.
pub(crate) async fn beat(
    store: Arc<dyn Store>,
    worker: WorkerId,
    lease: Duration,
    events: mpsc::UnboundedSender<Event>,
    doubt: Arc<Notify>,
) {
    let every = lease / BEATS_PER_LEASE;
    let mut renewed = Instant::now();
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tick.tick().await;
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = doubt.notified() => {}
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
            // Another may be given this number when the schema is back.
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
