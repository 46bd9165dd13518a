//! Claiming: how much to lease, when to hold back, and what to do about a claim that was never answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::store::Claim;
use windlass_core::{LeasedJob, QueueId, StoreError, Token, Verdict, WorkerId};

use super::dispatch::{Dispatcher, Event, answered};
use super::quarantine::Step;
use super::runs::hand_back;

const MAX_CLAIM: u32 = 1_000;
/// Ended attempts waiting for their settle above which nothing more is claimed.
const MAX_UNSETTLED: usize = 10_000;
/// A queue whose suspect turned out not to be ours is not asked again for this long.
const SUSPECT_REST: Duration = Duration::from_secs(5);
/// A job leased ahead should have started long before this.
const SURPLUS_AFTER: Duration = Duration::from_secs(2);
/// A statement whose connection broke may still commit for this long.
const DOUBT: Duration = Duration::from_secs(120);
const DOUBT_EVERY: Duration = Duration::from_secs(5);
/// An emptied queue is looked at for what comes next, but not more often than this.
const POLL_GAP: Duration = Duration::from_millis(100);

/// Leases nobody knows of may appear until the server has given up every statement of ours.
pub(super) struct Doubt {
    look_at: Instant,
    until: Instant,
}

impl Dispatcher {
    pub(super) fn refill(&mut self, now: Instant) {
        self.clear_doubt(now);
        if self.disowning || self.doubt.as_ref().is_some_and(|doubt| now >= doubt.look_at) {
            return;
        }
        let suspects = self.queues.iter().any(|q| q.suspect && !q.paused);
        match self.quarantine.step(now, suspects, self.is_idle(), self.options.quarantine) {
            Step::Normal => {
                for queue in 0..self.queues.len() {
                    self.claim_more(queue);
                }
            }
            Step::Hold => {}
            Step::ClaimSuspect { alone } => {
                if let Some(queue) = self.queues.iter().position(|q| q.suspect && !q.paused) {
                    self.claim(queue, 1, Some(alone));
                }
            }
            Step::Release(token) => self.release(token),
        }
    }

    /// Nothing leased, running or unwritten.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty()
            && self.unsettled.is_empty()
            && !self.settling
            && self.queues.iter().all(|q| q.buffer.is_empty() && !q.claiming)
    }

    fn claim_more(&mut self, queue: usize) {
        let work = &self.queues[queue];
        if !work.due || work.claiming || work.paused || self.unsettled.len() > MAX_UNSETTLED {
            return;
        }
        let ahead = work.pace.prefetch(self.options.prefetch, Instant::now());
        let held = work.running * work.batch + work.buffer.len() as u32;
        let wanted = (work.concurrency * work.batch + ahead).saturating_sub(held);
        // While jobs are short, wait for room worth a statement.
        if wanted == 0 || (wanted < ahead / 2 && work.buffer.len() as u32 > ahead / 2) {
            return;
        }
        self.claim(queue, wanted.min(MAX_CLAIM), None);
    }

    /// Jobs leased ahead that do not get their turn go back for others: the rate they were leased for was another
    /// kind's. So does everything unstarted of a paused queue.
    pub(super) fn return_surplus(&mut self, now: Instant) {
        for queue in 0..self.queues.len() {
            let work = &self.queues[queue];
            let waited = work.buffer.front().map_or(Duration::ZERO, |(_, received)| now - *received);
            let keep = match work.paused {
                true => 0,
                false if waited < SURPLUS_AFTER => continue,
                false => {
                    work.pace.prefetch(self.options.prefetch, now).max(work.concurrency * work.batch) as usize
                }
            };
            while self.queues[queue].buffer.len() > keep {
                let Some((job, received)) = self.queues[queue].buffer.pop_back() else { break };
                self.end_attempt(&job, received, Verdict::Return(hand_back(&job)), now);
            }
        }
    }

    fn claim(&mut self, queue: usize, limit: u32, suspect: Option<bool>) {
        let worker = self.worker_id();
        let work = &mut self.queues[queue];
        work.claiming = true;
        work.due_again = false;
        let claim =
            Claim { worker, queue: work.id, kinds: work.kinds.clone(), limit, suspect: suspect.is_some() };
        let (store, events, queue) = (self.client.store().clone(), self.events.clone(), work.id);
        tokio::spawn(async move {
            let begun = Instant::now();
            let mut result = answered("claim", store.claim(&claim)).await;
            let took = begun.elapsed();
            if suspect == Some(false)
                && let Ok(jobs) = &result
                && let Some(job) = jobs.first()
                && let Err(error) = store.in_company(job.token).await
            {
                result = Err(error);
            }
            let _ = events.send(Event::Claimed { worker, queue, suspect, took, result });
        });
    }

    pub(super) fn claimed(
        &mut self,
        worker: WorkerId,
        queue: QueueId,
        suspect: Option<bool>,
        result: Result<Vec<LeasedJob>, StoreError>,
    ) {
        let now = Instant::now();
        let current = worker == self.worker_id();
        let Some(work) = self.queues.iter_mut().find(|q| q.id == queue) else { return };
        work.claiming = false;
        let jobs = match result {
            Ok(jobs) => {
                self.trouble = None;
                jobs
            }
            Err(error) => {
                if suspect.is_some() {
                    self.quarantine.claimed(None, now);
                }
                self.doubt = Some(Doubt { look_at: now, until: now + DOUBT });
                return self.troubled("claim", error);
            }
        };
        if suspect.is_some() {
            let alone = jobs.first().filter(|_| suspect == Some(true)).map(|job| job.token);
            self.quarantine.claimed(alone, now);
            if jobs.is_empty() {
                work.suspect = false;
                work.suspect_rest = Some(now + SUSPECT_REST);
            }
        } else {
            // An empty-handed claim proves the queue empty unless a hint came meanwhile. A hint may have been about a
            // delayed job, whose time only a poll tells.
            work.due = work.due_again || !jobs.is_empty();
            if !work.due && std::mem::take(&mut work.hinted) {
                self.poll_at = self.poll_at.min(self.polled_at + POLL_GAP);
            }
        }
        // Leased by an incarnation that is no more: others have these jobs.
        if current {
            work.buffer.extend(jobs.into_iter().map(|job| (Arc::new(job), now)));
        }
    }

    /// Hands back what this worker leases without knowing it. Only between claims: a claim under way is unknown too.
    fn clear_doubt(&mut self, now: Instant) {
        let Some(doubt) = &mut self.doubt else { return };
        if self.disowning || now < doubt.look_at || self.queues.iter().any(|q| q.claiming) {
            return;
        }
        doubt.look_at = now + DOUBT_EVERY;
        if now >= doubt.until {
            self.doubt = None;
        }
        let leased = self.queues.iter().flat_map(|q| q.buffer.iter().map(|(job, _)| job.token));
        let running = self.runs.values().flat_map(|run| run.jobs.iter().map(|(job, _)| job.token));
        let mut known: Vec<Token> = leased.chain(running).collect();
        known.extend(self.unsettled.iter().chain(&self.refused).map(|ended| ended.settlement.token));
        known.extend(&self.settling_tokens);
        known.sort_unstable();
        known.dedup();
        self.disowning = true;
        let (store, events, worker) = (self.client.store().clone(), self.events.clone(), self.worker_id());
        tokio::spawn(async move {
            let disowned = answered("disown", store.disown(worker, &known)).await;
            let _ = events.send(Event::Disowned(disowned));
        });
    }

    pub(super) fn disowned(&mut self, result: Result<u64, StoreError>) {
        self.disowning = false;
        match result {
            Ok(0) => {}
            Ok(jobs) => tracing::warn!(jobs, "leases whose claim was never answered were handed back"),
            Err(error) => {
                let now = Instant::now();
                self.doubt = Some(Doubt { look_at: now, until: now + DOUBT });
                self.troubled("hand back unknown leases", error);
            }
        }
    }

    fn release(&mut self, token: Token) {
        let store = self.client.store().clone();
        tokio::spawn(async move {
            if let Err(error) = store.in_company(token).await {
                tracing::warn!(error = error.chain(), "a suspect could not be released from quarantine");
            }
        });
    }
}
