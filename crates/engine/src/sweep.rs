//! Finds workers that died and gives their jobs back, books what calls left reserved when their lease ended, and puts right
//! workflows one of whose jobs ended unnoticed.
//!
//! A lease ends when the database's clock says so *and* the owner's heartbeat stood still for a lease's length of
//! this process' monotonic clock: a stepped clock alone expires nothing. Where a store can prove a death without a
//! clock (a free file lock), that is enough. Any number of sweepers may run; no one is the leader.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use windlass_core::store::{Beat, Counted, DeadLetter, Reclaimed, Rollup};
use windlass_core::{Store, StoreError, WorkerId};

/// Between two looks at workers, where a look may prove a death.
const QUICK: Duration = Duration::from_secs(2);
/// Where only the end of a lease does, minutes after the last beat: an idle process asks little.
const CALM: Duration = Duration::from_secs(5);
const MEND_EVERY: Duration = Duration::from_secs(30);
/// Between two looks at reservations, unless somebody's death made them due.
const BOOK_EVERY: Duration = Duration::from_secs(10);

pub struct Sweeper {
    store: Arc<dyn Store>,
    every: Duration,
    /// Since when each worker's heartbeat has been seen to stand still.
    still: HashMap<WorkerId, (i64, Instant)>,
    /// When reservations are looked at next; `None`: now.
    book_at: Option<Instant>,
    /// When workflows are looked at next; `None`: now.
    mend_at: Option<Instant>,
}

impl Sweeper {
    pub fn new(store: Arc<dyn Store>, lease: Duration) -> Sweeper {
        let every = (lease / 4).min(if store.proves_deaths() { QUICK } else { CALM });
        Sweeper { store, every, still: HashMap::new(), book_at: None, mend_at: None }
    }

    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            match self.tick(Instant::now()).await {
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(error = error.chain(), "sweep failed; the next one will see the same")
                }
            }
            let jitter = self.every.mul_f64(0.9 + fastrand::f64() / 5.0);
            tokio::select! {
                () = tokio::time::sleep(jitter) => {}
                _ = stop.changed() => return,
            }
        }
    }

    /// One look at every worker, then at what was left reserved; returns what was taken back.
    pub async fn tick(&mut self, now: Instant) -> Result<Reclaimed, StoreError> {
        let taken = self.reclaim(now).await?;
        self.sweep_reservations(now).await?;
        self.mend_workflows(now).await?;
        Ok(taken)
    }

    /// Now and then: only processes of an older version leave something to mend.
    async fn mend_workflows(&mut self, now: Instant) -> Result<(), StoreError> {
        if self.mend_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        self.mend_at = Some(now + MEND_EVERY);
        let mended = self.store.mend_workflows().await?;
        if mended > 0 {
            tracing::warn!(
                workflows = mended,
                "jobs of workflows ended unnoticed; what waited for them goes on"
            );
        }
        Ok(())
    }

    /// After the dead: a lease that ended a moment ago may have left some.
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
                "nobody settled a reservation; it was booked in full"
            );
        }
        Ok(())
    }

    async fn reclaim(&mut self, now: Instant) -> Result<Reclaimed, StoreError> {
        let beats = self.store.beats().await?;
        self.still.retain(|worker, _| beats.iter().any(|beat| beat.worker == *worker));
        let mut total = Reclaimed::default();
        for beat in beats {
            if !self.is_dead(&beat, now) {
                continue;
            }
            let taken = match self.store.reclaim(&beat).await {
                Ok(Some(taken)) => taken,
                Ok(None) => continue,
                Err(error) => {
                    // One that cannot be taken back must not keep the others.
                    tracing::warn!(worker = %beat.worker, error = error.chain(), "a dead worker's jobs could not be taken back yet");
                    continue;
                }
            };
            self.still.remove(&beat.worker);
            self.book_at = None;
            tracing::warn!(
                worker = %beat.worker,
                suspects = taken.suspects,
                dead_letters = taken.dead_letters.len(),
                cancelled = taken.cancelled,
                superseded = taken.superseded,
                "a worker died; its jobs were taken back"
            );
            self.record(&taken.dead_letters).await;
            total.suspects += taken.suspects;
            total.dead_letters.extend(taken.dead_letters);
            total.cancelled += taken.cancelled;
            total.superseded += taken.superseded;
        }
        Ok(total)
    }

    /// Their worker is not there to count them, so whoever took them does.
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

    fn is_dead(&mut self, beat: &Beat, now: Instant) -> bool {
        let entry = self.still.entry(beat.worker).or_insert((beat.beats, now));
        if entry.0 != beat.beats {
            *entry = (beat.beats, now);
        }
        beat.gone || (beat.expired && now.saturating_duration_since(entry.1) >= beat.lease)
    }
}
