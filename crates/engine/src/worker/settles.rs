//! Settling: ended attempts go to the store in batches, with the reports that must precede them; statistics now and then.

use std::time::{Duration, Instant};

use windlass_core::store::{Counted, Report, Settled};
use windlass_core::{JobState, Settlement, Store, StoreError, Verdict};

use super::dispatch::{Dispatcher, Ended, Event, Phase, Run, answered, can_return};
use super::group::Group;

pub(super) const MAX_SETTLE: usize = 2_000;
/// What has ended waits so long, a timer's grain more at most, for what is about to: a statement for one costs half as much
/// as one for hundreds.
pub(super) const COMPANY: Duration = Duration::from_millis(1);
const REFUSED_EVERY: Duration = Duration::from_secs(30);
pub(super) const ROLLUP_EVERY: Duration = Duration::from_secs(10);
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(200);

impl Dispatcher {
    pub(super) fn flush_settles(&mut self, now: Instant) {
        if !self.refused.is_empty() && now >= self.refused_at {
            self.unsettled.extend(self.refused.drain(..));
        }
        if self.unsettled.is_empty() {
            self.gathering = None;
            return;
        }
        let since = *self.gathering.get_or_insert(now);
        let full = self.unsettled.len() >= self.settle_limit;
        let gathers = !full && now < since + COMPANY && self.more_end_soon(now);
        if self.settling || gathers || self.trouble.is_some_and(|(until, _)| now < until) {
            return;
        }
        self.gathering = None;
        let size = self.unsettled.len().min(self.settle_limit);
        let batch: Vec<Ended> = self.unsettled.drain(..size).collect();
        self.settling_tokens = batch.iter().map(|ended| ended.settlement.token).collect();
        let reports = self.desk.reports.take();
        let (store, events) = (self.client.store().clone(), self.events.clone());
        self.settling = true;
        tokio::spawn(async move {
            // A settled job takes no more reports, so its last ones go first.
            write_reports(&*store, reports).await;
            let (batch, result) = settle(&*store, batch).await;
            let _ = events.send(Event::Settled { batch, result });
        });
    }

    /// Short jobs that were leased ahead are about to run, or have just begun. Where leases are counted elsewhere, none is
    /// held longer for this.
    fn more_end_soon(&self, now: Instant) -> bool {
        let begun = |of: &Group| {
            let young = |run: &Run| now < run.started + COMPANY;
            let of_it = |run: &Run| run.jobs.first().is_some_and(|held| of.kinds.contains(&held.job.kind));
            self.runs.values().any(|run| young(run) && of_it(run))
        };
        let groups = self.queues.iter().filter(|work| !work.limited).flat_map(|work| &work.groups);
        let mut free = groups.filter(|of| of.pool.is_none() && (of.running > 0 || !of.buffer.is_empty()));
        matches!(self.phase, Phase::Working)
            && free.any(|of| {
                of.pace.prefetch(self.options.prefetch, now) > 0 && (!of.buffer.is_empty() || begun(of))
            })
    }

    pub(super) fn settled(&mut self, batch: Vec<Ended>, result: Result<Vec<Settled>, StoreError>) {
        self.settling = false;
        self.settling_tokens.clear();
        match result {
            Ok(answers) => {
                self.trouble = None;
                self.settle_limit = (self.settle_limit * 2).min(MAX_SETTLE);
                self.count(batch, answers);
                if self.is_idle() {
                    self.quarantine.ended(Instant::now());
                }
            }
            Err(error) if !can_return(&error) && !matches!(error, StoreError::Broken { .. }) => {
                self.isolate(batch, &error);
            }
            Err(error) => {
                // Written or not is unknown; writing again is harmless because of the fence.
                for ended in batch.into_iter().rev() {
                    self.unsettled.push_front(Ended { in_doubt: true, ..ended });
                }
                self.troubled("settle", error);
            }
        }
    }

    /// Tells waiters and statistics what was written. A stale answer means that nothing was, by this call: the lease
    /// is lost, or the job was settled before, by its own handler or by a call whose answer was lost.
    fn count(&mut self, batch: Vec<Ended>, answers: Vec<Settled>) {
        let inside = self.desk.inside.take(batch.iter().map(|ended| &ended.settlement));
        let mut unclear = Vec::new();
        for (ended, answer) in batch.into_iter().zip(answers) {
            let Settlement { id, token, queue, ref verdict, .. } = ended.settlement;
            let inside = inside.contains(&(id, token));
            let counted = match answer {
                Settled::Stale if inside && is_completed(verdict) => Some(Counted::Completed),
                Settled::Stale if inside || ended.in_doubt => {
                    unclear.push(ended);
                    continue;
                }
                Settled::Stale => {
                    tracing::debug!(job = %id, "the lease was no longer ours");
                    continue;
                }
                answer => Counted::of(verdict, answer),
            };
            if let (Some(ran), Some(counted)) = (&ended.ran, counted) {
                self.tally.count(queue, ran, counted);
            }
            self.client.finished(id);
        }
        if !unclear.is_empty() {
            self.look_up(unclear);
        }
    }

    fn look_up(&mut self, unclear: Vec<Ended>) {
        self.looking_up += 1;
        let (store, events) = (self.client.store().clone(), self.events.clone());
        tokio::spawn(async move {
            let mut found = Vec::with_capacity(unclear.len());
            for ended in unclear {
                let Settlement { id, token, .. } = ended.settlement;
                let detail = answered("look at a job", store.job(id)).await.ok().flatten();
                let attempt = detail.and_then(|d| d.attempts.into_iter().find(|a| a.token == token));
                found.push((ended, attempt.and_then(|attempt| Counted::written(&attempt.outcome))));
            }
            let _ = events.send(Event::LookedUp(found));
        });
    }

    pub(super) fn looked_up(&mut self, found: Vec<(Ended, Option<Counted>)>) {
        self.looking_up -= 1;
        for (ended, counted) in found {
            if let (Some(ran), Some(counted)) = (&ended.ran, counted) {
                self.tally.count(ended.settlement.queue, ran, counted);
                self.client.finished(ended.settlement.id);
            }
        }
    }

    /// Something in the batch cannot be written: halve it until that stands alone, then let the others pass.
    fn isolate(&mut self, batch: Vec<Ended>, error: &StoreError) {
        if batch.len() > 1 {
            self.settle_limit = batch.len() / 2;
            for ended in batch.into_iter().rev() {
                self.unsettled.push_front(ended);
            }
            return;
        }
        for ended in batch {
            tracing::error!(job = %ended.settlement.id, error = error.chain(), "the store refuses this outcome; it is kept and offered again");
            // It no longer runs, and may be offered for ever: what it held is others'.
            self.refused.push(Ended { permit: None, ..ended });
        }
        self.refused_at = Instant::now() + REFUSED_EVERY;
    }

    pub(super) fn flush_reports(&mut self, now: Instant) {
        if now >= self.report_at {
            self.report_at = now + REPORT_EVERY;
            let reports = if self.reporting { Vec::new() } else { self.desk.reports.take() };
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

/// The store takes settlements alone; what statistics want travels beside them.
async fn settle(store: &dyn Store, batch: Vec<Ended>) -> (Vec<Ended>, Result<Vec<Settled>, StoreError>) {
    let (settlements, rest): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|ended| (ended.settlement, (ended.ran, ended.in_doubt, ended.permit))).unzip();
    let result = answered("settle", store.settle(&settlements)).await;
    let ended = |(settlement, (ran, in_doubt, permit))| Ended { settlement, ran, in_doubt, permit };
    (settlements.into_iter().zip(rest).map(ended).collect(), result)
}

fn is_completed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::End { state: JobState::Completed, .. })
}

pub(super) async fn write_reports(store: &dyn Store, reports: Vec<Report>) {
    if !reports.is_empty()
        && let Err(error) = store.report(&reports).await
    {
        tracing::warn!(lines = reports.len(), error = error.chain(), "progress and log lines were lost");
    }
}
