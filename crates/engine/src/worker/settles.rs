//! Settling: ended attempts go to the store in batches, preceded by the reports of their jobs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use windlass_core::store::{Counted, Settled};
use windlass_core::{JobState, Settlement, Store, StoreError, Token, Verdict};

use super::dispatch::{Dispatcher, Event, Phase, Run, answered, can_return};
use super::group::Group;
use super::permits::Permit;
use super::report::write_reports;
use super::tally::RunStats;

const MAX_BATCH: usize = 2_000;
/// An ended attempt waits this long for others that are about to end: a statement for one row costs half as much as a
/// statement for hundreds.
pub(super) const BATCH_DELAY: Duration = Duration::from_millis(1);
const REFUSED_EVERY: Duration = Duration::from_secs(30);

/// An attempt that ended and is not known to be written.
pub(super) struct EndedAttempt {
    pub(super) settlement: Settlement,
    /// For statistics; `None` for a job that did not run to its end.
    pub(super) stats: Option<RunStats>,
    /// It was sent to the store and the answer was lost.
    pub(super) in_doubt: bool,
    /// Held as long as the job is leased, so that the permits shown in use equal the leases.
    pub(super) permit: Option<Permit>,
}

pub(super) struct Settles {
    waiting: VecDeque<EndedAttempt>,
    /// Tokens of the batch that is being written.
    under_way: Option<Vec<Token>>,
    /// When the first of those that wait began to wait for more.
    gathering: Option<Instant>,
    /// Batch size. Halved while the store refuses a batch, until the refused settlement is alone in one.
    limit: usize,
    /// Settlements the store refused one by one; offered again every [`REFUSED_EVERY`].
    refused: Vec<EndedAttempt>,
    refused_at: Instant,
    /// Lookups of settlements in doubt; statistics are incomplete until they are answered.
    lookups: usize,
}

impl Settles {
    pub(super) fn new(now: Instant) -> Settles {
        Settles {
            waiting: VecDeque::new(),
            under_way: None,
            gathering: None,
            limit: MAX_BATCH,
            refused: Vec::new(),
            refused_at: now,
            lookups: 0,
        }
    }

    pub(super) fn push(&mut self, ended: EndedAttempt) {
        self.waiting.push_back(ended);
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Nothing waits and nothing is being written. Refused settlements do not count.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_none()
    }

    pub(super) fn looks_up(&self) -> bool {
        self.lookups > 0
    }

    /// Every lease that ended here and may still be in the store.
    pub(super) fn tokens(&self) -> impl Iterator<Item = Token> {
        let ended = self.waiting.iter().chain(&self.refused).map(|ended| ended.settlement.token);
        ended.chain(self.under_way.iter().flatten().copied())
    }

    /// The leases are lost: none of their settlements would be accepted.
    pub(super) fn abandon(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.gathering.filter(|_| self.under_way.is_none()).map(|since| since + BATCH_DELAY)
    }

    fn put_back(&mut self, batch: Vec<EndedAttempt>) {
        for ended in batch.into_iter().rev() {
            self.waiting.push_front(ended);
        }
    }
}

impl Dispatcher {
    pub(super) fn flush_settles(&mut self, now: Instant) {
        let settles = &mut self.settles;
        if now >= settles.refused_at {
            settles.waiting.extend(settles.refused.drain(..));
        }
        if settles.waiting.is_empty() {
            settles.gathering = None;
            return;
        }
        let since = *settles.gathering.get_or_insert(now);
        let full = settles.waiting.len() >= settles.limit;
        let gathers = !full && now < since + BATCH_DELAY && self.more_end_soon(now);
        if self.settles.under_way.is_some() || gathers || self.outage.until(now).is_some() {
            return;
        }
        let settles = &mut self.settles;
        settles.gathering = None;
        let size = settles.waiting.len().min(settles.limit);
        let batch: Vec<EndedAttempt> = settles.waiting.drain(..size).collect();
        settles.under_way = Some(batch.iter().map(|ended| ended.settlement.token).collect());
        let reports = self.env.reports.take();
        let store = self.client.store().clone();
        self.spawn(async move {
            // A settled job takes no more reports, so its last ones are written first.
            write_reports(&*store, reports).await;
            let (batch, result) = settle(&*store, batch).await;
            Event::Settled { batch, result }
        });
    }

    /// Short jobs are about to start or have just started. Queues with a global concurrency and groups with permits are
    /// left out: there a lease that is held longer keeps another process from working.
    fn more_end_soon(&self, now: Instant) -> bool {
        let just_started = |group: &Group| {
            let young = |run: &Run| now < run.started + BATCH_DELAY;
            let of_group =
                |run: &Run| run.jobs.first().is_some_and(|lease| group.kinds.contains(&lease.job.kind));
            self.runs.values().any(|run| young(run) && of_group(run))
        };
        let groups = self.queues.iter().filter(|work| !work.limited).flat_map(|work| &work.groups);
        let mut busy = groups.filter(|of| of.pool.is_none() && (of.running > 0 || !of.buffer.is_empty()));
        matches!(self.phase, Phase::Working)
            && busy.any(|of| {
                of.pace.prefetch(self.options.prefetch, now) > 0
                    && (!of.buffer.is_empty() || just_started(of))
            })
    }

    pub(super) fn settled(
        &mut self,
        batch: Vec<EndedAttempt>,
        result: Result<Vec<Settled>, StoreError>,
        now: Instant,
    ) {
        self.settles.under_way = None;
        match result {
            Ok(answers) => {
                self.outage.succeeded();
                self.settles.limit = (self.settles.limit * 2).min(MAX_BATCH);
                self.count(batch, answers);
                if self.is_idle() {
                    self.quarantine.ended(now);
                }
            }
            Err(error) if !can_return(&error) && !matches!(error, StoreError::Broken { .. }) => {
                self.isolate(batch, &error, now);
            }
            Err(error) => {
                // It may have been written. Writing it again is harmless: the token fences the second write.
                let in_doubt = batch.into_iter().map(|ended| EndedAttempt { in_doubt: true, ..ended });
                self.settles.put_back(in_doubt.collect());
                self.store_failed("settle", error, now);
            }
        }
    }

    /// Tells waiting callers and statistics what was written. A stale answer means that this call wrote nothing: the
    /// lease is lost, or the job was settled before, by its own handler or by a call whose answer was lost.
    fn count(&mut self, batch: Vec<EndedAttempt>, answers: Vec<Settled>) {
        let inside = self.env.inside.take(batch.iter().map(|ended| &ended.settlement));
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
            if let (Some(stats), Some(counted)) = (&ended.stats, counted) {
                self.reports.tally.count(queue, stats, counted);
            }
            self.client.finished(id);
        }
        if !unclear.is_empty() {
            self.look_up(unclear);
        }
    }

    /// Reads from the store how these attempts ended.
    fn look_up(&mut self, unclear: Vec<EndedAttempt>) {
        self.settles.lookups += 1;
        let store = self.client.store().clone();
        self.spawn(async move {
            let mut found = Vec::with_capacity(unclear.len());
            for ended in unclear {
                let Settlement { id, token, .. } = ended.settlement;
                let detail = answered("look at a job", store.job(id)).await.ok().flatten();
                let attempt = detail.and_then(|d| d.attempts.into_iter().find(|a| a.token == token));
                found.push((ended, attempt.and_then(|attempt| Counted::written(&attempt.outcome))));
            }
            Event::LookedUp(found)
        });
    }

    pub(super) fn looked_up(&mut self, found: Vec<(EndedAttempt, Option<Counted>)>) {
        self.settles.lookups -= 1;
        for (ended, counted) in found {
            if let (Some(stats), Some(counted)) = (&ended.stats, counted) {
                self.reports.tally.count(ended.settlement.queue, stats, counted);
                self.client.finished(ended.settlement.id);
            }
        }
    }

    /// Something in the batch cannot be written: halves batches until it is alone, so that the others are written.
    fn isolate(&mut self, batch: Vec<EndedAttempt>, error: &StoreError, now: Instant) {
        if batch.len() > 1 {
            self.settles.limit = batch.len() / 2;
            self.settles.put_back(batch);
            return;
        }
        for ended in batch {
            let (job, error) = (ended.settlement.id, error.chain());
            tracing::error!(%job, error, "the store refuses this outcome; it is kept and offered again");
            // The job no longer runs and may be offered for ever, so it gives its permit back.
            self.settles.refused.push(EndedAttempt { permit: None, ..ended });
        }
        self.settles.refused_at = now + REFUSED_EVERY;
    }
}

/// The store takes only settlements; the rest of each attempt is put back beside its own.
async fn settle(
    store: &dyn Store,
    batch: Vec<EndedAttempt>,
) -> (Vec<EndedAttempt>, Result<Vec<Settled>, StoreError>) {
    let (settlements, rest): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|ended| (ended.settlement, (ended.stats, ended.in_doubt, ended.permit)))
        .unzip();
    let result = answered("settle", store.settle(&settlements)).await;
    let ended =
        |(settlement, (stats, in_doubt, permit))| EndedAttempt { settlement, stats, in_doubt, permit };
    (settlements.into_iter().zip(rest).map(ended).collect(), result)
}

fn is_completed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::End { state: JobState::Completed, .. })
}
