//! Settling: ended attempts go to the store in batches, with the reports that must precede them; statistics now and then.

use std::time::{Duration, Instant};

use windlass_core::store::{Report, Settled};
use windlass_core::{Settlement, StoreError};

use super::dispatch::{Dispatcher, Event, answered};

pub(super) const MAX_SETTLE: usize = 2_000;
const REFUSED_EVERY: Duration = Duration::from_secs(30);
pub(super) const ROLLUP_EVERY: Duration = Duration::from_secs(10);
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(200);

impl Dispatcher {
    pub(super) fn flush_settles(&mut self, now: Instant) {
        if !self.refused.is_empty() && now >= self.refused_at {
            self.unsettled.extend(self.refused.drain(..));
        }
        if self.settling || self.unsettled.is_empty() || self.trouble.is_some_and(|(until, _)| now < until) {
            return;
        }
        let size = self.unsettled.len().min(self.settle_limit);
        let batch: Vec<Settlement> = self.unsettled.drain(..size).collect();
        self.settling_tokens = batch.iter().map(|settlement| settlement.token).collect();
        let reports = self.reports.take();
        let (store, events) = (self.client.store().clone(), self.events.clone());
        self.settling = true;
        tokio::spawn(async move {
            // A settled job takes no more reports, so its last ones go first.
            write_reports(&*store, reports).await;
            let result = answered("settle", store.settle(&batch)).await;
            let _ = events.send(Event::Settled { batch, result });
        });
    }

    pub(super) fn settled(&mut self, batch: Vec<Settlement>, result: Result<Vec<Settled>, StoreError>) {
        self.settling = false;
        self.settling_tokens.clear();
        match result {
            Ok(answers) => {
                self.trouble = None;
                self.settle_limit = (self.settle_limit * 2).min(MAX_SETTLE);
                for (settlement, answer) in batch.iter().zip(answers) {
                    match answer {
                        // Also the answer for a job that completed itself with `settle_in`.
                        Settled::Stale => {
                            tracing::debug!(job = %settlement.id, "the lease was no longer ours")
                        }
                        _ => self.client.finished(settlement.id),
                    }
                }
                if self.is_idle() {
                    self.quarantine.ended(Instant::now());
                }
            }
            Err(error) if !error.is_transient() && !matches!(error, StoreError::Broken { .. }) => {
                self.isolate(batch, &error);
            }
            Err(error) => {
                // Written or not is unknown; writing again is harmless because of the fence.
                for settlement in batch.into_iter().rev() {
                    self.unsettled.push_front(settlement);
                }
                self.troubled("settle", error);
            }
        }
    }

    /// Something in the batch cannot be written: halve it until that stands alone, then let the others pass.
    fn isolate(&mut self, batch: Vec<Settlement>, error: &StoreError) {
        if batch.len() > 1 {
            self.settle_limit = batch.len() / 2;
            for settlement in batch.into_iter().rev() {
                self.unsettled.push_front(settlement);
            }
            return;
        }
        for settlement in batch {
            tracing::error!(job = %settlement.id, error = error.chain(), "the store refuses this outcome; it is kept and offered again");
            self.refused.push(settlement);
        }
        self.refused_at = Instant::now() + REFUSED_EVERY;
    }

    pub(super) fn flush_reports(&mut self, now: Instant) {
        if now >= self.report_at {
            self.report_at = now + REPORT_EVERY;
            let reports = if self.reporting { Vec::new() } else { self.reports.take() };
            if !reports.is_empty() {
                self.reporting = true;
                let (store, events) = (self.client.store().clone(), self.events.clone());
                tokio::spawn(async move {
                    write_reports(&*store, reports).await;
                    let _ = events.send(Event::Reported);
                });
            }
        }
        if now >= self.rollup_at {
            self.rollup_at = now + ROLLUP_EVERY;
            let rollups = self.tally.take();
            if !rollups.is_empty() {
                let store = self.client.store().clone();
                tokio::spawn(async move {
                    if let Err(error) = store.record(&rollups).await {
                        tracing::warn!(error = error.chain(), "statistics of the last seconds were lost");
                    }
                });
            }
        }
    }
}

pub(super) async fn write_reports(store: &dyn windlass_core::Store, reports: Vec<Report>) {
    if !reports.is_empty()
        && let Err(error) = store.report(&reports).await
    {
        tracing::warn!(lines = reports.len(), error = error.chain(), "progress and log lines were lost");
    }
}
