//! Claiming: how much to lease, when to hold back, and what to do about a claim that was never answered.

use std::time::{Duration, Instant};

use windlass_core::store::{Claim, TokenLease};
use windlass_core::{KindId, QueueId, StoreError, Token, Verdict, WorkerId};

use super::dispatch::{Dispatcher, Event, answered};
use super::group::Held;
use super::late::{self, Caught};
use super::permits::Permit;
use super::quarantine::Step;
use super::runs::hand_back;
use super::tokens::ASK_FOR;

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
/// A claim that brought less than it asked for is followed by the next so much later, unless a hint comes: without hints it
/// is what keeps up with a steady trickle.
const REST: Duration = Duration::from_millis(10);
/// An emptied queue is looked at for what comes next, but not more often than this.
const POLL_GAP: Duration = Duration::from_millis(100);

/// Leases nobody knows of may appear until the server has given up every statement of ours.
pub(super) struct Doubt {
    look_at: Instant,
    until: Instant,
}

/// A claim under way, and the permits that wait for its jobs.
pub(super) struct Leasing {
    worker: WorkerId,
    queue: QueueId,
    group: u64,
    limit: u32,
    suspect: Option<bool>,
    permits: Vec<Permit>,
}

/// Jobs that fit: so many slots of a batch each, and some ahead of them.
fn room(open: i64, batch: u32, ahead: u32, buffered: usize) -> u32 {
    let room = open * i64::from(batch) + i64::from(ahead) - buffered as i64;
    u32::try_from(room.max(0)).unwrap_or(u32::MAX)
}

impl Dispatcher {
    pub(super) fn refill(&mut self, now: Instant) {
        self.clear_doubt(now);
        // The first poll tells which limits are in force; the catalog may be older.
        if self.clock.is_none()
            || self.disowning
            || self.doubt.as_ref().is_some_and(|doubt| now >= doubt.look_at)
        {
            return;
        }
        for queue in 0..self.queues.len() {
            self.ask_for_tokens(queue, now);
        }
        let suspect = self.suspect(now);
        match self.quarantine.step(now, suspect.is_some(), self.is_idle(), self.options.quarantine) {
            Step::Normal => {
                for queue in 0..self.queues.len() {
                    for group in 0..self.queues[queue].groups.len() {
                        self.claim_more(queue, group, now);
                    }
                }
            }
            Step::Hold => {}
            Step::ClaimSuspect { alone } => {
                if let Some((queue, group)) = suspect {
                    self.claim(queue, group, 1, Some(alone), now);
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
            && self.claims_under_way == 0
            && self.queues.iter().flat_map(|q| &q.groups).all(|group| group.buffer.is_empty())
    }

    /// Where a suspect waits that its limits would let run.
    fn suspect(&self, now: Instant) -> Option<(usize, usize)> {
        let held = |group: &super::group::Group| {
            group.tokens.as_ref().is_none_or(|tokens| tokens.held(now) > 0) && group.may_start(now)
        };
        self.queues.iter().enumerate().filter(|(_, work)| !work.paused).find_map(|(queue, work)| {
            let group = work.groups.iter().position(|group| group.suspect && held(group))?;
            Some((queue, group))
        })
    }

    fn claim_more(&mut self, queue: usize, group: usize, now: Instant) {
        let work = &self.queues[queue];
        let of = &work.groups[group];
        if !of.is_due(now) || of.claiming || work.paused || self.unsettled.len() > MAX_UNSETTLED {
            return;
        }
        let ahead = if work.limited || of.pool.is_some() || work.is_shared(group, now) {
            0
        } else {
            of.pace.prefetch(self.options.prefetch, now)
        };
        let wanted = room(work.open_to(group, now), of.batch, ahead, of.buffer.len());
        // While jobs are short, wait for room worth a statement.
        if wanted == 0 || (wanted < ahead / 2 && of.buffer.len() as u32 > ahead / 2) {
            return;
        }
        self.claim(queue, group, wanted.min(MAX_CLAIM), None, now);
    }

    /// Rate tokens for what could start at once and in the next moments; and back with those nobody spent.
    fn ask_for_tokens(&mut self, queue: usize, now: Instant) {
        for group in 0..self.queues[queue].groups.len() {
            let work = &self.queues[queue];
            let of = &work.groups[group];
            if of.tokens.is_none() {
                continue;
            }
            let waiting =
                !work.paused && (of.due || of.suspect) && of.pool.as_ref().is_none_or(|pool| pool.free() > 0);
            let wanted = match waiting {
                true => {
                    room(work.open_to(group, now), of.batch, of.pace.ahead(ASK_FOR, now), of.buffer.len())
                }
                false => 0,
            };
            let (queue, group) = (work.id, &mut self.queues[queue].groups[group]);
            let kind = group.kinds.first().copied();
            let asked = group.tokens.as_mut().and_then(|tokens| tokens.ask(wanted.min(MAX_CLAIM), now));
            let (Some(kind), Some((wanted, unspent))) = (kind, asked) else { continue };
            let (store, events) = (self.client.store().clone(), self.events.clone());
            tokio::spawn(async move {
                let result = answered("lease rate tokens", store.lease_tokens(kind, wanted, unspent)).await;
                let _ = events.send(Event::Granted { queue, kind, asked: now, wanted, result });
            });
        }
    }

    pub(super) fn granted(
        &mut self,
        (queue, kind): (QueueId, KindId),
        asked: Instant,
        wanted: u32,
        result: Result<TokenLease, StoreError>,
        now: Instant,
    ) {
        let work = self.queues.iter_mut().find(|work| work.id == queue);
        let Some(tokens) = work.and_then(|work| work.group_of(kind)).and_then(|group| group.tokens.as_mut())
        else {
            return;
        };
        match result {
            Ok(lease) => tokens.answered(asked, wanted, lease, now),
            Err(error) => {
                tokens.failed(now);
                self.troubled("lease rate tokens", error);
            }
        }
    }

    /// Jobs leased ahead that do not get their turn go back for others: the rate they were leased for was another
    /// kind's. So does everything unstarted of a paused queue.
    pub(super) fn return_surplus(&mut self, now: Instant) {
        for queue in 0..self.queues.len() {
            for group in 0..self.queues[queue].groups.len() {
                let work = &self.queues[queue];
                let of = &work.groups[group];
                let waited = of.buffer.front().map_or(Duration::ZERO, |held| now - held.received);
                let keep = match work.paused {
                    true => 0,
                    false if waited < SURPLUS_AFTER => continue,
                    false => of.pace.prefetch(self.options.prefetch, now) as usize,
                };
                while self.queues[queue].groups[group].buffer.len() > keep {
                    let Some(held) = self.queues[queue].groups[group].buffer.pop_back() else { break };
                    let back = hand_back(&held.job);
                    self.end_attempt(held, Verdict::Return(back), now);
                }
            }
        }
    }

    /// At most `limit` jobs, and no more than there are tokens and permits for: both are taken before the claim.
    fn claim(&mut self, queue: usize, group: usize, mut limit: u32, suspect: Option<bool>, now: Instant) {
        let worker = self.worker_id();
        let work = &mut self.queues[queue];
        let open = u32::try_from(work.open_to(group, now)).unwrap_or(0);
        let groups = work.groups.len();
        let of = &mut work.groups[group];
        if let Some(tokens) = &of.tokens {
            limit = limit.min(tokens.held(now));
        }
        let permits = of.pool.as_ref().map(|pool| pool.take(limit));
        if let Some(permits) = &permits {
            limit = permits.len() as u32;
        }
        if limit == 0 {
            return;
        }
        if let Some(tokens) = &mut of.tokens {
            tokens.spend(limit);
        }
        of.claiming = true;
        of.coming = limit.div_ceil(of.batch).min(open);
        of.due_again = false;
        work.turn = (group + 1) % groups;
        let of = &work.groups[group];
        let claim =
            Claim { worker, queue: work.id, kinds: of.kinds.clone(), limit, suspect: suspect.is_some() };
        let leasing = Leasing {
            worker,
            queue: work.id,
            group: of.no,
            limit,
            suspect,
            permits: permits.unwrap_or_default(),
        };
        let share = if suspect.is_some() { None } else { work.late.share(limit, work.limited, now) };
        self.claims_under_way += 1;
        let (store, events) = (self.client.store().clone(), self.events.clone());
        let begun = Instant::now();
        tokio::spawn(async move {
            let mut result = answered("claim", late::claim(&*store, &claim, share)).await;
            let took = begun.elapsed();
            if suspect == Some(false)
                && let Ok(caught) = &result
                && let Some(job) = caught.jobs.first()
                && let Err(error) = store.in_company(job.token).await
            {
                result = Err(error);
            }
            let _ = events.send(Event::Claimed { leasing, took, result });
        });
    }

    pub(super) fn claimed(&mut self, leasing: Leasing, result: Result<Caught, StoreError>) {
        let now = Instant::now();
        let Leasing { worker, queue, group, limit, suspect, permits } = leasing;
        self.claims_under_way = self.claims_under_way.saturating_sub(1);
        let current = worker == self.worker_id();
        let Some(work) = self.queues.iter_mut().find(|q| q.id == queue) else { return };
        // Gone when its kinds' limits have changed meanwhile.
        let mut of = work.groups.iter_mut().find(|of| of.no == group);
        if let Some(of) = &mut of {
            of.claiming = false;
            of.coming = 0;
        }
        let jobs = match result {
            Ok(caught) => {
                self.trouble = None;
                work.late.filled(&caught);
                caught.jobs
            }
            Err(error) => {
                if suspect.is_some() {
                    self.quarantine.claimed(None, now);
                }
                self.doubt = Some(Doubt { look_at: now, until: now + DOUBT });
                return self.troubled("claim", error);
            }
        };
        if let Some(tokens) = of.as_mut().and_then(|of| of.tokens.as_mut()) {
            tokens.back(limit.saturating_sub(jobs.len() as u32));
        }
        if suspect.is_some() {
            let alone = jobs.first().filter(|_| suspect == Some(true)).map(|job| job.token);
            self.quarantine.claimed(alone, now);
            if let Some(of) = of.filter(|_| jobs.is_empty()) {
                of.suspect = false;
                of.suspect_rest = Some(now + SUSPECT_REST);
            }
        } else if let Some(of) = of {
            // An empty-handed claim proves the queue empty unless a hint came meanwhile. A hint may have been about a
            // delayed job, whose time only a poll tells.
            of.due = of.due_again || !jobs.is_empty();
            of.rests_until = (!of.due_again && (jobs.len() as u32) < limit).then(|| now + REST);
            if !of.due && std::mem::take(&mut of.hinted) {
                self.poll_at = self.poll_at.min(self.polled_at + POLL_GAP);
            }
        }
        // Leased by an incarnation that is no more: others have these jobs.
        if current {
            let mut permits = permits.into_iter();
            for job in jobs {
                let held = Held { received: now, permit: permits.next(), job: job.into() };
                if let Some(of) = work.group_of(held.job.kind) {
                    of.put(held);
                }
            }
        }
    }

    /// Hands back what this worker leases without knowing it. Only between claims: a claim under way is unknown too.
    fn clear_doubt(&mut self, now: Instant) {
        let Some(doubt) = &mut self.doubt else { return };
        if self.disowning || now < doubt.look_at || self.claims_under_way > 0 {
            return;
        }
        doubt.look_at = now + DOUBT_EVERY;
        if now >= doubt.until {
            self.doubt = None;
        }
        let groups = self.queues.iter().flat_map(|q| &q.groups);
        let leased = groups.flat_map(|group| group.buffer.iter().map(|held| held.job.token));
        let running = self.runs.values().flat_map(|run| run.jobs.iter().map(|held| held.job.token));
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
