//! Claiming: how much to lease, when to hold back, and what to do about a claim that was never answered.

use std::time::{Duration, Instant};

use windlass_core::store::{Claim, SuspectsDue, TokenLease};
use windlass_core::sweep::{Level, SECOND_PER_PROCESS, Suspicion};
use windlass_core::{KindId, QueueId, StoreError, Token, Verdict, WorkerId};

use super::dispatch::{Dispatcher, Event, answered};
use super::group::{Group, Lease};
use super::late::{self, ClaimedJobs};
use super::permits::Permit;
use super::quarantine::Decision;
use super::runs::hand_back;
use super::timed;
use super::tokens::ASK_FOR;

const MAX_CLAIM: u32 = 1_000;
/// Ended attempts waiting for their settle above which nothing more is claimed.
const MAX_UNSETTLED: usize = 10_000;
/// Pause before a group is asked again for a suspect that another worker had taken.
const SUSPECT_REST: Duration = Duration::from_secs(5);
/// A job leased ahead should have started long before this.
const SURPLUS_AFTER: Duration = Duration::from_secs(2);
/// A statement whose connection broke may still commit for this long.
const UNKNOWN_FOR: Duration = Duration::from_secs(120);
const DISOWN_EVERY: Duration = Duration::from_secs(5);
/// Delay before re-claiming after a short claim, unless a hint comes. Without hints this is what keeps up with a steady
/// trickle of jobs.
const SHORT_CLAIM_REST: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct Claims {
    under_way: usize,
    /// A claim failed without telling whether it leased anything.
    unknown: Option<UnknownLeases>,
    disowning: bool,
    second_under_way: bool,
}

/// Leases this worker does not know of. They may appear until the server has given up every statement of ours.
struct UnknownLeases {
    look_at: Instant,
    until: Instant,
}

impl Claims {
    fn lost_track(&mut self, now: Instant) {
        self.unknown = Some(UnknownLeases { look_at: now, until: now + UNKNOWN_FOR });
    }

    /// Unknown leases are handed back before anything else is claimed.
    fn must_wait(&self, now: Instant) -> bool {
        self.disowning || self.unknown.as_ref().is_some_and(|unknown| now >= unknown.look_at)
    }
}

/// A claim under way, and the permits taken for its jobs.
pub(super) struct PendingClaim {
    worker: WorkerId,
    queue: QueueId,
    group: u64,
    limit: u32,
    wants: Wants,
    permits: Vec<Permit>,
}

/// Which jobs a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Ordinary,
    Second,
    /// One job; `alone` if nothing else runs in this process.
    Trial {
        alone: bool,
    },
}

impl Wants {
    fn level(self) -> Level {
        match self {
            Wants::Ordinary => Level::Ordinary,
            Wants::Second => Level::Second,
            Wants::Trial { .. } => Level::Trial,
        }
    }
}

/// Jobs that fit: a batch for each of `open` slots, and `ahead` more, less those that are leased already.
fn room(open: i64, batch: u32, ahead: u32, buffered: usize) -> u32 {
    let room = open * i64::from(batch) + i64::from(ahead) - buffered as i64;
    u32::try_from(room.max(0)).unwrap_or(u32::MAX)
}

impl Dispatcher {
    pub(super) fn refill(&mut self, now: Instant) {
        self.disown_unknown(now);
        // The first poll tells which limits are in force; the catalog may be older.
        if !self.polls.has_answered() || self.claims.must_wait(now) {
            return;
        }
        for queue in 0..self.queues.len() {
            self.ask_for_tokens(queue, now);
        }
        let trial = self.waits_for_trial(now);
        match self.quarantine.decide(now, trial.is_some(), self.is_idle(), self.options.quarantine) {
            Decision::Normal => {
                for queue in 0..self.queues.len() {
                    for group in 0..self.queues[queue].groups.len() {
                        self.claim_second(queue, group, now);
                        self.claim_more(queue, group, now);
                    }
                }
            }
            Decision::Hold => {}
            Decision::ClaimSuspect { alone } => {
                if let Some((queue, group)) = trial {
                    self.claim(queue, group, 1, Wants::Trial { alone }, now);
                }
            }
            Decision::Release(token) => self.release(token),
        }
    }

    /// Nothing leased, running or unwritten.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty()
            && self.settles.is_idle()
            && self.claims.under_way == 0
            && self.queues.iter().flat_map(|q| &q.groups).all(|group| group.buffer.is_empty())
    }

    /// The queue and group in which a job waits for its trial and its limits allow it to run.
    fn waits_for_trial(&self, now: Instant) -> Option<(usize, usize)> {
        let allowed = |group: &Group| {
            group.tokens.as_ref().is_none_or(|tokens| tokens.held(now) > 0) && group.may_start(now)
        };
        self.queues.iter().enumerate().filter(|(_, work)| !work.paused).find_map(|(queue, work)| {
            let group = work.groups.iter().position(|group| group.suspects.trial && allowed(group))?;
            Some((queue, group))
        })
    }

    /// A few jobs of level 2 at a time: if one of them kills this process, it takes only a few others with it.
    fn claim_second(&mut self, queue: usize, group: usize, now: Instant) {
        let work = &self.queues[queue];
        let of = &work.groups[group];
        if !of.suspects.second || of.claiming || self.claims.second_under_way || work.paused {
            return;
        }
        let open = u32::try_from(work.open_to(group, now)).unwrap_or(0);
        let limit = SECOND_PER_PROCESS.saturating_sub(self.running_second()).min(open);
        self.claim(queue, group, limit, Wants::Second, now);
    }

    fn running_second(&self) -> u32 {
        let running = self.runs.values().flat_map(|run| &run.jobs);
        let (low, high) = Level::Second.range();
        let second = |lease: &&Lease| (low..=high).contains(&lease.job.suspicion.level());
        running.filter(second).count() as u32
    }

    fn claim_more(&mut self, queue: usize, group: usize, now: Instant) {
        let work = &self.queues[queue];
        let of = &work.groups[group];
        if !of.is_due(now) || of.claiming || work.paused || self.settles.waiting() > MAX_UNSETTLED {
            return;
        }
        // Leased means started for these: a death ends them.
        let once = |kind| self.roster.kinds.get(kind).is_some_and(|kind| kind.spec.at_most_once);
        let at_once = work.limited || of.pool.is_some() || of.suspects.first || of.kinds.iter().any(once);
        let ahead = if at_once || work.is_shared(group, now) {
            0
        } else {
            of.pace.prefetch(self.options.prefetch, now)
        };
        let wanted = room(work.open_to(group, now), of.batch, ahead, of.buffer.len());
        // While jobs are short, wait until the room is worth a statement.
        if wanted == 0 || (wanted < ahead / 2 && of.buffer.len() as u32 > ahead / 2) {
            return;
        }
        self.claim(queue, group, wanted.min(MAX_CLAIM), Wants::Ordinary, now);
    }

    /// Asks for the rate tokens of jobs that could start now or soon, and gives back those that were not spent in time.
    fn ask_for_tokens(&mut self, queue: usize, now: Instant) {
        for group in 0..self.queues[queue].groups.len() {
            let work = &self.queues[queue];
            let of = &work.groups[group];
            if of.tokens.is_none() {
                continue;
            }
            let waiting = !work.paused
                && (of.due || of.suspects.second || of.suspects.trial)
                && of.pool.as_ref().is_none_or(|pool| pool.free() > 0);
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
            let store = self.client.store().clone();
            self.spawn(async move {
                let result = answered("lease rate tokens", store.lease_tokens(kind, wanted, unspent)).await;
                Event::Granted { queue, kind, asked: now, wanted, result }
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
                self.store_failed("lease rate tokens", error, now);
            }
        }
    }

    /// Hands back jobs leased ahead that did not start in time: the rate they were leased for was another kind's. Also
    /// hands back everything unstarted of a paused queue.
    pub(super) fn return_surplus(&mut self, now: Instant) {
        for queue in 0..self.queues.len() {
            for group in 0..self.queues[queue].groups.len() {
                let work = &self.queues[queue];
                let of = &work.groups[group];
                let waited = of.buffer.front().map_or(Duration::ZERO, |lease| now - lease.received);
                let keep = match work.paused {
                    true => 0,
                    false if waited < SURPLUS_AFTER => continue,
                    false => of.pace.prefetch(self.options.prefetch, now) as usize,
                };
                while self.queues[queue].groups[group].buffer.len() > keep {
                    let Some(lease) = self.queues[queue].groups[group].buffer.pop_back() else { break };
                    let back = hand_back(&lease.job);
                    self.end_attempt(lease, Verdict::Return(back), now);
                }
            }
        }
    }

    /// Hands back suspects that got no slot: their worker may die before they start, and the death would count against
    /// them.
    pub(super) fn return_waiting_suspects(&mut self, now: Instant) {
        for queue in 0..self.queues.len() {
            for group in 0..self.queues[queue].groups.len() {
                loop {
                    let of = &mut self.queues[queue].groups[group];
                    let Some(lease) = of.buffer.pop_front_if(|lease| lease.job.suspicion != Suspicion::NONE)
                    else {
                        break;
                    };
                    of.suspects.first = true;
                    let back = hand_back(&lease.job);
                    self.end_attempt(lease, Verdict::Return(back), now);
                }
            }
        }
    }

    /// Claims at most `limit` jobs, and no more than there are tokens and permits for: both are taken before the claim.
    fn claim(&mut self, queue: usize, group: usize, mut limit: u32, wants: Wants, now: Instant) {
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
        work.first = (group + 1) % groups;
        let of = &work.groups[group];
        let claim = Claim { worker, queue: work.id, kinds: of.kinds.clone(), limit, level: wants.level() };
        let permits = permits.unwrap_or_default();
        let pending = PendingClaim { worker, queue: work.id, group: of.no, limit, wants, permits };
        let share = match wants {
            Wants::Ordinary => work.late.share(limit, work.limited, now),
            Wants::Second | Wants::Trial { .. } => None,
        };
        self.claims.under_way += 1;
        self.claims.second_under_way |= wants == Wants::Second;
        let (store, times) = (self.client.store().clone(), self.claim_times.clone());
        self.spawn(async move {
            let claiming = answered("claim", late::claim(&*store, &claim, share));
            let (mut result, took) = timed(claiming).await;
            times.put(took);
            if wants == (Wants::Trial { alone: false })
                && let Ok(claimed) = &result
                && let Some(job) = claimed.jobs.first()
                && let Err(error) = store.clear_alone(job.token).await
            {
                result = Err(error);
            }
            Event::Claimed { claim: pending, result }
        });
    }

    pub(super) fn claimed(
        &mut self,
        claim: PendingClaim,
        result: Result<ClaimedJobs, StoreError>,
        now: Instant,
    ) {
        let PendingClaim { worker, queue, group, limit, wants, permits } = claim;
        self.claims.under_way = self.claims.under_way.saturating_sub(1);
        self.claims.second_under_way &= wants != Wants::Second;
        let current = worker == self.worker_id();
        let Some(work) = self.queues.iter_mut().find(|q| q.id == queue) else { return };
        // `None` when limits changed meanwhile and the kinds are grouped in another way.
        let mut of = work.groups.iter_mut().find(|of| of.no == group);
        if let Some(of) = &mut of {
            of.claiming = false;
            of.coming = 0;
        }
        let jobs = match result {
            Ok(claimed) => {
                self.outage.succeeded();
                work.late.filled(&claimed);
                claimed.jobs
            }
            Err(error) => {
                if wants.level() == Level::Trial {
                    self.quarantine.claimed(None, now);
                }
                self.claims.lost_track(now);
                return self.store_failed("claim", error, now);
            }
        };
        if let Some(tokens) = of.as_mut().and_then(|of| of.tokens.as_mut()) {
            tokens.give_back(limit.saturating_sub(jobs.len() as u32));
        }
        if wants.level() == Level::Trial {
            let alone = jobs.first().filter(|_| wants == (Wants::Trial { alone: true })).map(|job| job.token);
            self.quarantine.claimed(alone, now);
        }
        if wants != Wants::Ordinary {
            if let Some(of) = of.filter(|_| jobs.is_empty()) {
                of.suspects = SuspectsDue { first: of.suspects.first, ..SuspectsDue::default() };
                of.suspect_rest = Some(now + SUSPECT_REST);
            }
        } else if let Some(of) = of {
            // An empty answer proves that nothing is due, unless a hint came meanwhile. A hint may have been about a
            // delayed job: only a poll tells when that is due.
            of.due = of.due_again || !jobs.is_empty();
            of.rests_until = (!of.due_again && (jobs.len() as u32) < limit).then(|| now + SHORT_CLAIM_REST);
            if !of.due && std::mem::take(&mut of.hinted) {
                self.polls.poll_soon();
            }
        }
        // A claim made under an earlier registration brought nothing: other workers have its jobs.
        if current {
            let mut permits = permits.into_iter();
            for job in jobs {
                let lease = Lease { received: now, permit: permits.next(), job: job.into() };
                if let Some(of) = work.group_of(lease.job.kind) {
                    of.put(lease);
                }
            }
        }
    }

    /// Hands back what this worker leases without knowing it. Only between claims: the leases of a claim under way are
    /// not known yet either.
    fn disown_unknown(&mut self, now: Instant) {
        let Some(unknown) = &mut self.claims.unknown else { return };
        if self.claims.disowning || now < unknown.look_at || self.claims.under_way > 0 {
            return;
        }
        unknown.look_at = now + DISOWN_EVERY;
        if now >= unknown.until {
            self.claims.unknown = None;
        }
        let groups = self.queues.iter().flat_map(|q| &q.groups);
        let leased = groups.flat_map(|group| group.buffer.iter().map(|lease| lease.job.token));
        let running = self.runs.values().flat_map(|run| run.jobs.iter().map(|lease| lease.job.token));
        let mut known: Vec<Token> = leased.chain(running).chain(self.settles.tokens()).collect();
        known.sort_unstable();
        known.dedup();
        self.claims.disowning = true;
        let (store, worker) = (self.client.store().clone(), self.worker_id());
        self.spawn(async move {
            Event::Disowned(answered("release_unknown", store.release_unknown(worker, &known)).await)
        });
    }

    pub(super) fn disowned(&mut self, result: Result<u64, StoreError>, now: Instant) {
        self.claims.disowning = false;
        match result {
            Ok(0) => {}
            Ok(jobs) => tracing::warn!(jobs, "leases whose claim was never answered were handed back"),
            Err(error) => {
                self.claims.lost_track(now);
                self.store_failed("hand back unknown leases", error, now);
            }
        }
    }

    fn release(&mut self, token: Token) {
        let store = self.client.store().clone();
        tokio::spawn(async move {
            if let Err(error) = store.clear_alone(token).await {
                tracing::warn!(
                    error = error.chain(),
                    "other jobs wait for a job on trial: its claim could not be updated"
                );
            }
        });
    }
}
