//! Takes back the jobs of dead workers, books reservations whose lease has ended, and repairs workflows.
//!
//! `core::sweep` decides which workers are dead and what becomes of their jobs. Any number of sweepers may run; there
//! is no leader.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use windlass_core::store::{Counted, DeadLetter, Reclaimed, Rollup};
use windlass_core::sweep::Watch;
use windlass_core::{Store, StoreError};

const LOOK_EVERY: Duration = Duration::from_secs(2);
/// After a look that saw a worker without its lock.
const LOOK_AGAIN: Duration = Duration::from_millis(1_050);
const MEND_EVERY: Duration = Duration::from_secs(30);
/// Between two checks of reservations, unless a dead worker was found.
const BOOK_EVERY: Duration = Duration::from_secs(10);

pub struct Sweeper {
    store: Arc<dyn Store>,
    every: Duration,
    watch: Watch,
    /// When reservations are checked next; `None` is now.
    book_at: Option<Instant>,
    /// When workflows are checked next; `None` is now.
    mend_at: Option<Instant>,
}

impl Sweeper {
    pub fn new(store: Arc<dyn Store>, lease: Duration) -> Sweeper {
        let every = (lease / 4).min(LOOK_EVERY);
        Sweeper { store, every, watch: Watch::default(), book_at: None, mend_at: None }
    }

    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            match self.tick(Instant::now()).await {
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(error = error.chain(), "sweep failed; the next one will see the same")
                }
            }
            let pause = match self.watch.has_doubts() {
                true => self.every.min(LOOK_AGAIN),
                false => self.every.mul_f64(0.9 + fastrand::f64() / 5.0),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.changed() => return,
            }
        }
    }

    /// One round of all checks; returns the jobs that were taken back.
    pub async fn tick(&mut self, now: Instant) -> Result<Reclaimed, StoreError> {
        let taken = self.reclaim(now).await?;
        self.sweep_reservations(now).await?;
        self.repair_workflows(now).await?;
        Ok(taken)
    }

    /// Seldom: only processes of an older version leave something to repair.
    async fn repair_workflows(&mut self, now: Instant) -> Result<(), StoreError> {
        if self.mend_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        self.mend_at = Some(now + MEND_EVERY);
        let mended = self.store.repair_workflows().await?;
        if mended > 0 {
            tracing::warn!(
                workflows = mended,
                "jobs of workflows ended unnoticed; what waited for them goes on"
            );
        }
        Ok(())
    }

    /// After dead workers were handled: a lease that has just ended may have left reservations.
    async fn sweep_reservations(&mut self, now: Instant) -> Result<(), StoreError> {
        if self.book_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        self.book_at = Some(now + BOOK_EVERY.min(self.every * 5));
        for leak in self.store.sweep_reservations().await? {
            tracing::warn!(
                budget = leak.budget,
                month = %leak.month,
                kind = leak.kind,
                job.id = leak.job.0,
                reservation = %leak.id,
                amount = %leak.amount,
                tokens = leak.tokens,
                "a reservation was not settled; it was booked in full"
            );
        }
        Ok(())
    }

    async fn reclaim(&mut self, now: Instant) -> Result<Reclaimed, StoreError> {
        let look = match self.store.look().await {
            Ok(look) => look,
            Err(error) => {
                self.watch.look_failed();
                return Err(error);
            }
        };
        let mut total = Reclaimed::default();
        for death in self.watch.look(now, &look) {
            let worker = death.beat.worker;
            let taken = match self.store.reclaim(&death).await {
                Ok(Some(taken)) => taken,
                Ok(None) => continue,
                Err(error) => {
                    // The other dead workers are handled all the same.
                    let error = error.chain();
                    tracing::warn!(%worker, error, "a dead worker's jobs could not be taken back yet");
                    continue;
                }
            };
            self.watch.forget(worker);
            self.book_at = None;
            tracing::warn!(
                %worker,
                explained = death.explained,
                jobs = taken.returned,
                dead_letters = taken.dead_letters.len(),
                cancelled = taken.cancelled,
                superseded = taken.superseded,
                "a worker died; its jobs were taken back"
            );
            self.record(&taken.dead_letters).await;
            total.returned += taken.returned;
            total.dead_letters.extend(taken.dead_letters);
            total.cancelled += taken.cancelled;
            total.superseded += taken.superseded;
        }
        Ok(total)
    }

    /// Counts dead letters in statistics: their own worker is gone.
    async fn record(&self, dead: &[DeadLetter]) {
        if dead.is_empty() {
            return;
        }
        let rollups: Vec<Rollup> = dead
            .iter()
            .map(|job| {
                let mut rollup = Rollup::new(job.ended_at, job.queue, job.kind);
                rollup.count(Counted::Dead, job.ended_at.since(job.run_at), Duration::ZERO);
                rollup
            })
            .collect();
        if let Err(error) = self.store.record(&rollups).await {
            tracing::warn!(error = error.chain(), "statistics of a dead worker's last jobs were lost");
        }
    }
}
