//! The dispatcher: all state of a worker process, and one step for each thing that can happen to it.
//!
//! The steps themselves are in `claims`, `runs` and `settles`. Nothing is claimed that cannot start soon, nothing is
//! settled twice, and nothing here waits on the database: claims, settles and polls run as tasks and come back as
//! [`Event`]s.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use windlass_core::store::{Backlog, Counted, KindLimits, Permits, Poll, QueueKinds, Settled, TokenLease};
use windlass_core::{KindId, Outcome, QueueId, Settlement, StoreError, Time, Token, Verdict, WorkerId};

use super::claims::{Doubt, Leasing};
use super::group::{Grouping, Held, QueueWork};
use super::late::{Caught, Late};
use super::permits::Permit;
use super::quarantine::Quarantine;
use super::runs::hand_back;
use super::settles::{COMPANY, MAX_SETTLE, REPORT_EVERY, ROLLUP_EVERY, write_reports};
use super::tally::{ClaimTimes, Ran, Tally};
use super::wake::{Hints, WakeBox};
use super::{Roster, Served, WorkerOptions, heart};
use crate::handler::Desk;
use crate::{Catalog, Client, EngineError, Ticker};

const MAX_TROUBLE: Duration = Duration::from_secs(5);

pub(super) enum Event {
    Ran {
        run: u64,
        outcomes: Vec<Outcome>,
        busy: Duration,
    },
    Claimed {
        leasing: Leasing,
        took: Duration,
        result: Result<Caught, StoreError>,
    },
    Granted {
        queue: QueueId,
        kind: KindId,
        asked: Instant,
        wanted: u32,
        result: Result<TokenLease, StoreError>,
    },
    Settled {
        batch: Vec<Ended>,
        result: Result<Vec<Settled>, StoreError>,
    },
    /// What stands in the database of runs whose settlement came too late to say.
    LookedUp(Vec<(Ended, Option<Counted>)>),
    Polled {
        /// The groups asked about, in order.
        asked: Vec<u64>,
        result: Result<Poll, StoreError>,
    },
    Measured {
        queue: QueueId,
        sla: Option<Duration>,
        result: Result<Backlog, StoreError>,
    },
    Told(Result<bool, StoreError>),
    Ticked {
        ticker: Ticker,
        result: Result<Option<Time>, StoreError>,
    },
    Lost {
        worker: WorkerId,
        why: &'static str,
    },
    Disowned(Result<u64, StoreError>),
    Reported,
}

/// One query looks at all queues, so it is as frequent as the most demanding of them asks.
fn poll_every(roster: &Roster, catalog: &Catalog, wanted: Duration) -> Duration {
    let queues = roster.queues.iter().filter_map(|served| catalog.queue(served.queue));
    queues.map(|queue| queue.spec.cadence).min().map_or(wanted, |cadence| wanted.min(cadence))
}

pub(super) struct Run {
    pub(super) queue: usize,
    pub(super) served: Arc<Served>,
    pub(super) jobs: Vec<Held>,
    pub(super) started: Instant,
    pub(super) abort: AbortHandle,
}

/// An attempt that ended and is not known to be written.
pub(super) struct Ended {
    pub(super) settlement: Settlement,
    /// For statistics; none of a job that was not run to an end.
    pub(super) ran: Option<Ran>,
    /// It was sent to the store and the answer was lost.
    pub(super) in_doubt: bool,
    /// Held for as long as the job is leased, so that what is shown in use equals the leases.
    pub(super) permit: Option<Permit>,
}

pub(super) enum Phase {
    Working,
    Stopping { deadline: Instant },
}

pub(super) struct Dispatcher {
    pub(super) client: Client,
    pub(super) roster: Roster,
    pub(super) options: WorkerOptions,
    pub(super) worker: watch::Sender<WorkerId>,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) phase: Phase,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) inbox: mpsc::UnboundedReceiver<Event>,
    pub(super) wakes: WakeBox,
    pub(super) queues: Vec<QueueWork>,
    pub(super) grouping: Grouping,
    /// Those the groups are made by.
    pub(super) limits: Vec<KindLimits>,
    pub(super) claims_under_way: usize,
    pub(super) runs: HashMap<u64, Run>,
    pub(super) next_run: u64,
    pub(super) unsettled: VecDeque<Ended>,
    pub(super) settling: bool,
    /// Since when the first of the unsettled waits for company.
    pub(super) gathering: Option<Instant>,
    pub(super) desk: Desk,
    pub(super) reporting: bool,
    pub(super) tally: Tally,
    /// Answers to come before the tally is whole.
    pub(super) looking_up: usize,
    pub(super) claim_times: ClaimTimes,
    pub(super) quarantine: Quarantine,
    pub(super) polling: bool,
    pub(super) look_for_cancels: bool,
    pub(super) poll_at: Instant,
    pub(super) polled_at: Instant,
    /// Database clock at an instant of ours, from the last poll.
    pub(super) clock: Option<(Time, Instant)>,
    /// Away while it ticks.
    pub(super) ticker: Option<Ticker>,
    /// When the next schedule is due, by the database's clock.
    pub(super) next_tick: Option<Time>,
    pub(super) report_at: Instant,
    pub(super) rollup_at: Instant,
    /// When the last round was: what was due by then waits for an event, not for the clock.
    last_round: Instant,
    pub(super) tune_at: Instant,
    /// This worker's limits are others than the store was told.
    pub(super) untold: bool,
    pub(super) telling: bool,
    pub(super) tell_at: Instant,
    pub(super) trouble: Option<(Instant, Duration)>,
    /// Tokens of the settle under way.
    pub(super) settling_tokens: Vec<Token>,
    /// Smaller while the store refuses something in a batch, until it stands alone.
    pub(super) settle_limit: usize,
    /// Settlements the store refused one by one; offered again now and then.
    pub(super) refused: Vec<Ended>,
    pub(super) refused_at: Instant,
    /// A claim failed without saying whether it leased anything.
    pub(super) doubt: Option<Doubt>,
    pub(super) disowning: bool,
    pub(super) broken: Option<StoreError>,
    pub(super) heart: JoinHandle<()>,
    /// Makes the heart beat at once.
    pub(super) alive: Arc<Notify>,
}

impl Dispatcher {
    pub(crate) fn new(
        client: Client,
        roster: Roster,
        mut options: WorkerOptions,
        worker: WorkerId,
        stop: watch::Receiver<bool>,
    ) -> Dispatcher {
        let (events, inbox) = mpsc::unbounded_channel();
        let wakes = WakeBox::default();
        let now = Instant::now();
        client.store().on_wake(wakes.listener());
        options.poll = poll_every(&roster, &client.catalog(), options.poll);
        let alive = Arc::new(Notify::new());
        let beating =
            heart::beat(client.store().clone(), worker, options.lease, events.clone(), alive.clone());
        let heart = tokio::spawn(beating);
        let mut dispatcher = Dispatcher {
            queues: Vec::new(),
            grouping: Grouping::default(),
            limits: Vec::new(),
            claims_under_way: 0,
            roster,
            options,
            worker: watch::channel(worker).0,
            stop,
            phase: Phase::Working,
            events,
            inbox,
            wakes,
            runs: HashMap::new(),
            next_run: 0,
            unsettled: VecDeque::new(),
            settling: false,
            gathering: None,
            desk: Desk::new(client.clone()),
            ticker: Some(Ticker::new(client.clone())),
            next_tick: None,
            client,
            looking_up: 0,
            reporting: false,
            tally: Tally::default(),
            claim_times: ClaimTimes::default(),
            quarantine: Quarantine::default(),
            polling: false,
            look_for_cancels: false,
            poll_at: now,
            polled_at: now,
            clock: None,
            report_at: now + REPORT_EVERY,
            rollup_at: now + ROLLUP_EVERY,
            last_round: now,
            tune_at: now,
            untold: true,
            telling: false,
            tell_at: now,
            trouble: None,
            settling_tokens: Vec::new(),
            settle_limit: MAX_SETTLE,
            refused: Vec::new(),
            refused_at: now,
            doubt: None,
            disowning: false,
            broken: None,
            heart,
            alive,
        };
        dispatcher.make_queues(now);
        dispatcher
    }

    pub(crate) fn worker_watch(&self) -> watch::Receiver<WorkerId> {
        self.worker.subscribe()
    }

    pub(crate) fn claim_times(&self) -> ClaimTimes {
        self.claim_times.clone()
    }

    pub(super) fn worker_id(&self) -> WorkerId {
        *self.worker.borrow()
    }

    /// Until told to stop and everything is settled or handed back.
    pub(crate) async fn run(mut self) -> Result<(), EngineError> {
        let mut batch = Vec::with_capacity(512);
        let mut stop = self.stop.clone();
        let wakes = self.wakes.clone();
        loop {
            let timer = tokio::time::sleep_until(self.next_timer().into());
            tokio::select! {
                biased;
                _ = stop.changed(), if matches!(self.phase, Phase::Working) => self.begin_stop(Instant::now()),
                _ = self.inbox.recv_many(&mut batch, 512) => self.take_in(&mut batch).await?,
                hints = wakes.woken() => self.woken(hints),
                () = timer => {}
            }
            if let Some(error) = self.broken.take() {
                self.heart.abort();
                return Err(error.into());
            }
            self.tick(Instant::now());
            if self.is_over(Instant::now()) {
                return self.end().await;
            }
        }
    }

    /// Events, and the hints that came meanwhile: while short jobs run there is always another event.
    pub(super) async fn take_in(&mut self, events: &mut Vec<Event>) -> Result<(), EngineError> {
        for event in events.drain(..) {
            self.handle(event).await?;
        }
        self.woken(self.wakes.take());
        Ok(())
    }

    /// One round: start what can start, write what has ended, ask for more.
    pub(super) fn tick(&mut self, now: Instant) {
        self.last_round = now;
        self.start_polls(now);
        if !self.is_troubled(now) {
            self.start_tick(now);
        }
        if matches!(self.phase, Phase::Working) {
            for queue in 0..self.queues.len() {
                self.start_runs(queue, now);
            }
        }
        self.flush_settles(now);
        self.flush_reports(now);
        if matches!(self.phase, Phase::Working) && !self.is_troubled(now) {
            self.refill(now);
            self.start_tuning(now);
            self.tell_limits(now);
        }
    }

    pub(super) async fn handle(&mut self, event: Event) -> Result<(), EngineError> {
        match event {
            Event::Ran { run, outcomes, busy } => self.ran(run, outcomes, busy, Instant::now()),
            Event::Claimed { leasing, took, result } => {
                self.claim_times.put(took);
                self.claimed(leasing, result);
            }
            Event::Granted { queue, kind, asked, wanted, result } => {
                self.granted((queue, kind), asked, wanted, result, Instant::now());
            }
            Event::Measured { queue, sla, result } => self.measured(queue, sla, result, Instant::now()),
            Event::Told(result) => self.told(result, Instant::now()),
            Event::Settled { batch, result } => self.settled(batch, result),
            Event::LookedUp(found) => self.looked_up(found),
            Event::Polled { asked, result } => self.polled(&asked, result),
            Event::Ticked { ticker, result } => self.ticked(ticker, result),
            Event::Reported => self.reporting = false,
            Event::Disowned(result) => self.disowned(result),
            Event::Lost { worker, why } if worker == self.worker_id() => self.reincarnate(why).await?,
            Event::Lost { .. } => {}
        }
        Ok(())
    }

    /// Never in the past: what is overdue waits for an event, not for the clock.
    pub(super) fn next_timer(&self) -> Instant {
        let now = Instant::now();
        let mut next = self.rollup_at;
        match self.trouble {
            Some((until, _)) if now < until => next = next.min(until),
            _ if !self.polling => next = next.min(self.poll_at),
            _ => {}
        }
        if let (Some((at, instant)), false) = (self.clock, self.polling) {
            let groups = self.queues.iter().filter(|q| !q.paused).flat_map(|q| &q.groups);
            for due in groups.filter(|group| !group.due).filter_map(|group| group.next_due) {
                next = next.min(instant + due.since(at));
            }
        }
        let open = || self.queues.iter().filter(|q| !q.paused).flat_map(|q| &q.groups);
        let resting =
            open().filter(|group| group.due && !group.claiming).filter_map(|group| group.rests_until);
        let tokens = open().filter_map(|group| group.tokens.as_ref()?.wakes_at(group.due || group.suspect));
        let tuning = self.queues.iter().any(|queue| queue.tuner.is_some()).then_some(self.tune_at);
        let ticks = self.tick_at().filter(|_| !self.is_troubled(now));
        for at in tokens.chain(tuning).chain(resting).filter(|at| *at > self.last_round).chain(ticks) {
            next = next.min(at);
        }
        if let Some(at) = self.quarantine.wakes_at() {
            next = next.min(at.max(now));
        }
        if !self.runs.is_empty() {
            next = next.min(self.report_at);
        }
        if let (Some(since), false, false) = (self.gathering, self.settling, self.is_troubled(now)) {
            next = next.min(since + COMPANY);
        }
        if let Phase::Stopping { deadline } = self.phase {
            next = next.min(deadline.max(now)).min(now + Duration::from_millis(100));
        }
        next.max(now + Duration::from_millis(1))
    }

    fn is_troubled(&self, now: Instant) -> bool {
        self.trouble.is_some_and(|(until, _)| now < until)
    }

    // What is due ------------------------------------------------------------------------------------------------

    pub(super) fn woken(&mut self, hints: Hints) {
        for queue in &mut self.queues {
            let (hinted, due) = (hints.queues.contains(&queue.id), hints.due.contains(&queue.id));
            for group in queue.groups.iter_mut().filter(|_| hinted || due) {
                group.wake();
                group.hinted |= hinted;
            }
        }
        if hints.any {
            self.poll_at = Instant::now();
        }
        self.look_for_cancels |= hints.cancel;
    }

    fn start_polls(&mut self, now: Instant) {
        if let Some((at, instant)) = self.clock {
            let here = at.plus(now.saturating_duration_since(instant));
            for group in self.queues.iter_mut().flat_map(|queue| &mut queue.groups) {
                if group.next_due.is_some_and(|due| due <= here) {
                    group.wake();
                    group.next_due = None;
                }
            }
        }
        if self.polling || self.is_troubled(now) {
            return;
        }
        if now >= self.poll_at {
            self.polled_at = now;
            self.poll_at = now + self.options.poll;
            let all = self.queues.iter().flat_map(|work| work.groups.iter().map(|group| (work.id, group)));
            let asked =
                all.map(|(queue, group)| (group.no, QueueKinds { queue, kinds: group.kinds.clone() }));
            self.start_poll(asked.collect());
        } else if self.look_for_cancels {
            self.start_poll(Vec::new());
        }
    }

    /// Every poll says what to stop; one without queues nothing else.
    fn start_poll(&mut self, groups: Vec<(u64, QueueKinds)>) {
        let (asked, served): (Vec<u64>, Vec<QueueKinds>) = groups.into_iter().unzip();
        self.polling = true;
        self.look_for_cancels = false;
        let (store, events, worker) = (self.client.store().clone(), self.events.clone(), self.worker_id());
        tokio::spawn(async move {
            let result = answered("poll", store.poll(worker, &served)).await;
            let _ = events.send(Event::Polled { asked, result });
        });
    }

    fn polled(&mut self, asked: &[u64], result: Result<Poll, StoreError>) {
        self.polling = false;
        let poll = match result {
            Ok(poll) => poll,
            Err(error) => return self.troubled("look for work", error),
        };
        self.trouble = None;
        let now = Instant::now();
        self.clock = Some((poll.now, now));
        // Asked while a tick was under way, this is from before it.
        if self.ticker.is_some() {
            self.next_tick = poll.next_tick;
        }
        for found in &poll.queues {
            let Some(queue) = self.queues.iter_mut().find(|q| q.id == found.queue) else { continue };
            self.untold |= queue.apply(found, self.options.concurrency);
            let no = asked.get(found.asked);
            if let Some(group) = queue.groups.iter_mut().find(|group| Some(&group.no) == no) {
                group.apply(found, poll.now, now);
            }
        }
        if !asked.is_empty() && poll.limits != self.limits {
            self.limits = poll.limits;
            self.follow_limits(now);
        }
        for id in poll.cancel {
            self.cancel(id);
        }
        self.return_surplus(now);
    }

    // Limits -----------------------------------------------------------------------------------------------------

    /// All that is kept per queue, anew, with the limits the catalog knows.
    fn make_queues(&mut self, now: Instant) {
        let catalog = self.client.catalog();
        let work = |served: &QueueKinds| {
            let spec = catalog.queue(served.queue).map(|queue| &queue.spec);
            let configured = spec.map_or(1, |spec| spec.concurrency);
            let concurrency = self.options.concurrency.unwrap_or(configured);
            QueueWork::new(served.queue, concurrency, Late::new(spec, now), now)
        };
        self.queues = self.roster.queues.iter().map(work).collect();
        self.limits = limits(&self.roster, &catalog);
        self.follow_limits(now);
    }

    fn follow_limits(&mut self, now: Instant) {
        let Dispatcher { queues, grouping, roster, runs, limits, client, .. } = self;
        let running = |kind| {
            let of = |run: &&Run| run.jobs.first().is_some_and(|held| held.job.kind == kind);
            runs.values().filter(of).count() as u32
        };
        for (queue, served) in queues.iter_mut().zip(&roster.queues) {
            grouping.follow(queue, served, limits, (roster, client.pools()), running, now);
        }
        self.untold = true;
    }

    // Trouble ----------------------------------------------------------------------------------------------------

    pub(super) fn troubled(&mut self, doing: &str, error: StoreError) {
        if matches!(error, StoreError::Broken { .. }) {
            self.broken = Some(error);
            return;
        }
        if matches!(error, StoreError::SchemaMissing) {
            self.alive.notify_one();
        }
        let wait = match self.trouble {
            Some((_, wait)) => (wait * 2).min(MAX_TROUBLE),
            None => {
                tracing::warn!(error = error.chain(), "could not {doing}; trying again until it works");
                Duration::from_millis(100)
            }
        };
        let jittered = wait.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.trouble = Some((Instant::now() + jittered, wait));
    }

    /// The lease is lost: everything leased is somebody else's, so nothing of it is written.
    async fn reincarnate(&mut self, why: &str) -> Result<(), EngineError> {
        let old = self.worker_id();
        tracing::warn!(worker = %old, running = self.runs.len(), "lease lost: {why}; starting over as a new worker");
        for (_, run) in self.runs.drain() {
            run.abort.abort();
        }
        self.unsettled.clear();
        self.desk.inside.clear();
        self.quarantine = Quarantine::default();
        for group in self.queues.iter_mut().flat_map(|queue| &mut queue.groups) {
            group.buffer.clear();
            group.running = 0;
            group.due = true;
        }
        self.heart.abort();
        if !matches!(self.phase, Phase::Working) {
            return Ok(());
        }
        let mut wait = Duration::from_millis(100);
        let worker = loop {
            match self.enlist().await {
                Ok(worker) => break worker,
                // Half a schema answers in many ways; only a store that lost what it had acknowledged is given up.
                Err(error) if !matches!(error, StoreError::Broken { .. }) && !*self.stop.borrow() => {
                    tracing::warn!(error = error.chain(), "could not register again; trying until it works");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(MAX_TROUBLE);
                }
                Err(error) => return Err(error.into()),
            }
        };
        self.worker.send_replace(worker);
        self.heart = tokio::spawn(heart::beat(
            self.client.store().clone(),
            worker,
            self.options.lease,
            self.events.clone(),
            self.alive.clone(),
        ));
        Ok(())
    }

    /// Registers a new incarnation. The old one may have gone with the whole schema, so the registry is read again, and
    /// all that is kept by its numbers is made anew: under a new number waits another kind.
    async fn enlist(&mut self) -> Result<WorkerId, StoreError> {
        self.client.refresh().await?;
        self.roster = self.roster.renumbered(&self.client);
        self.make_queues(Instant::now());
        self.client.store().register_worker(&self.roster.info(&self.options)).await
    }

    // Stopping ---------------------------------------------------------------------------------------------------

    pub(super) fn begin_stop(&mut self, now: Instant) {
        self.phase = Phase::Stopping { deadline: now + self.options.grace };
        self.hand_back_buffers(now);
    }

    fn hand_back_buffers(&mut self, now: Instant) {
        let groups = self.queues.iter_mut().flat_map(|queue| &mut queue.groups);
        let unstarted: Vec<Held> = groups.flat_map(|group| group.buffer.drain(..)).collect();
        for held in unstarted {
            let back = hand_back(&held.job);
            self.end_attempt(held, Verdict::Return(back), now);
        }
    }

    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        let Phase::Stopping { deadline } = self.phase else { return false };
        // A claim under way at the stop may still bring jobs.
        self.hand_back_buffers(now);
        if now >= deadline {
            for run in self.runs.keys().copied().collect::<Vec<_>>() {
                self.abort(run, now, |_| Outcome::HandBack);
            }
        }
        let gave_up = now >= deadline + MAX_TROUBLE;
        self.flush_settles(now);
        (self.is_idle() && self.looking_up == 0) || gave_up
    }

    pub(super) async fn end(mut self) -> Result<(), EngineError> {
        self.heart.abort();
        write_reports(&**self.client.store(), self.desk.reports.take()).await;
        let rollups = self.tally.take();
        if !rollups.is_empty()
            && let Err(error) = self.client.store().record(&rollups).await
        {
            tracing::warn!(error = error.chain(), "statistics of the last seconds were lost");
        }
        self.client.store().retire_worker(self.worker_id()).await?;
        Ok(())
    }
}

/// A missing schema may be on its way back, as in a migration down and up.
pub(super) fn can_return(error: &StoreError) -> bool {
    error.is_transient() || matches!(error, StoreError::SchemaMissing)
}

/// The limits of the kinds this worker runs, as the registry had them when it was read.
fn limits(roster: &Roster, catalog: &Catalog) -> Vec<KindLimits> {
    let known = roster.kinds.keys().filter_map(|kind| catalog.kind(*kind));
    let of = |kind: &crate::catalog::KindEntry| {
        let permits = kind.spec.resource.as_ref().and_then(|resource| Some((resource, resource.permits?)));
        let resource = permits.map(|(of, permits)| Permits { resource: of.name.clone(), permits });
        KindLimits { kind: kind.id, rate: kind.spec.rate, resource }
    };
    let mut limits: Vec<KindLimits> = known.map(of).collect();
    limits.retain(|of| of.rate.is_some() || of.resource.is_some());
    limits.sort_by_key(|of| of.kind);
    limits
}

/// A store call whose panic becomes an error: without an answer the dispatcher would wait for ever.
pub(super) async fn answered<T>(
    what: &'static str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let guarded = std::panic::AssertUnwindSafe(call).catch_unwind().await;
    guarded.unwrap_or_else(|_| Err(StoreError::Corrupt { what: format!("{what} panicked") }))
}
