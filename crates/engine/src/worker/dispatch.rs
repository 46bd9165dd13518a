//! The dispatcher: decides everything a worker process does, one step per thing that can happen to it.
//!
//! Steps are in the files of what they are about: `polls`, `claims`, `runs`, `settles`, `ticks`, `tuning`, `report`.
//! Nothing is claimed that cannot start soon, and nothing is settled twice. No step waits for the database: store calls
//! run in tasks that answer with an [`Event`]. No step reads a clock: `now` comes from [`Dispatcher::run`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use windlass_core::store::{Backlog, Counted, KindLimits, Permits, Poll, QueueKinds, Settled, TokenLease};
use windlass_core::{KindId, Outcome, QueueId, StoreError, Time, Verdict, WorkerId};

use super::claims::{Claims, PendingClaim};
use super::group::{Grouping, Lease, QueueWork};
use super::heart::Heart;
use super::late::{ClaimedJobs, LateReserve};
use super::outage::{LONGEST_PAUSE, Outage};
use super::polls::Polls;
use super::quarantine::Quarantine;
use super::report::{Reports, write_reports, write_rollups};
use super::runs::hand_back;
use super::settles::{EndedAttempt, Settles};
use super::tally::ClaimTimes;
use super::ticks::Ticks;
use super::tuning::LimitReports;
use super::wake::{Hints, WakeBox};
use super::{Roster, ServedKind, WorkerOptions};
use crate::handler::RunEnv;
use crate::{Catalog, Client, EngineError, Ticker};

pub(super) enum Event {
    Ran {
        run: u64,
        outcomes: Vec<Outcome>,
        busy: Duration,
    },
    Claimed {
        claim: PendingClaim,
        result: Result<ClaimedJobs, StoreError>,
    },
    Granted {
        queue: QueueId,
        kind: KindId,
        asked: Instant,
        wanted: u32,
        result: Result<TokenLease, StoreError>,
    },
    Settled {
        batch: Vec<EndedAttempt>,
        result: Result<Vec<Settled>, StoreError>,
    },
    /// How attempts ended whose settlement could not tell.
    LookedUp(Vec<(EndedAttempt, Option<Counted>)>),
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
    LimitsReported(Result<bool, StoreError>),
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

/// One query polls all queues, so the shortest cadence of any of them decides.
fn poll_every(roster: &Roster, catalog: &Catalog, wanted: Duration) -> Duration {
    let queues = roster.queues.iter().filter_map(|served| catalog.queue(served.queue));
    queues.map(|queue| queue.spec.cadence).min().map_or(wanted, |cadence| wanted.min(cadence))
}

pub(super) struct Run {
    pub(super) queue: usize,
    pub(super) kind: Arc<ServedKind>,
    pub(super) jobs: Vec<Lease>,
    pub(super) started: Instant,
    pub(super) abort: AbortHandle,
}

pub(super) enum Phase {
    Working,
    Stopping { deadline: Instant },
}

pub(super) struct Dispatcher {
    pub(super) client: Client,
    pub(super) roster: Roster,
    pub(super) options: WorkerOptions,
    worker: watch::Sender<WorkerId>,
    stop: watch::Receiver<bool>,
    pub(super) phase: Phase,
    events: mpsc::UnboundedSender<Event>,
    pub(super) inbox: mpsc::UnboundedReceiver<Event>,
    pub(super) wakes: WakeBox,
    pub(super) queues: Vec<QueueWork>,
    grouping: Grouping,
    /// The limits the groups were made for.
    pub(super) limits: Vec<KindLimits>,
    pub(super) claims: Claims,
    pub(super) claim_times: ClaimTimes,
    pub(super) quarantine: Quarantine,
    pub(super) runs: HashMap<u64, Run>,
    pub(super) next_run: u64,
    pub(super) env: RunEnv,
    pub(super) settles: Settles,
    pub(super) reports: Reports,
    pub(super) polls: Polls,
    pub(super) ticks: Ticks,
    pub(super) tune_at: Instant,
    pub(super) limit_reports: LimitReports,
    /// When the last round was: what was due by then waits for an event, not for the clock.
    last_round: Instant,
    pub(super) outage: Outage,
    /// The store lost what it had acknowledged.
    broken: Option<StoreError>,
    /// Why this worker's lease is lost.
    lost: Option<&'static str>,
    heart: Heart,
}

impl Dispatcher {
    pub(crate) fn new(
        client: Client,
        roster: Roster,
        mut options: WorkerOptions,
        worker: WorkerId,
        stop: watch::Receiver<bool>,
        now: Instant,
    ) -> Dispatcher {
        let (events, inbox) = mpsc::unbounded_channel();
        let wakes = WakeBox::default();
        client.store().on_wake(wakes.listener());
        options.poll = poll_every(&roster, &client.catalog(), options.poll);
        let mut dispatcher = Dispatcher {
            heart: Heart::start(client.store().clone(), worker, options.lease, events.clone()),
            queues: Vec::new(),
            grouping: Grouping::default(),
            limits: Vec::new(),
            claims: Claims::default(),
            claim_times: ClaimTimes::default(),
            quarantine: Quarantine::default(),
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
            env: RunEnv::new(client.clone()),
            settles: Settles::new(now),
            reports: Reports::new(now),
            polls: Polls::new(now),
            ticks: Ticks::new(Ticker::new(client.clone())),
            client,
            tune_at: now,
            limit_reports: LimitReports::new(now),
            last_round: now,
            outage: Outage::default(),
            broken: None,
            lost: None,
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
            let timer = tokio::time::sleep_until(self.next_timer(Instant::now()).into());
            tokio::select! {
                biased;
                _ = stop.changed(), if matches!(self.phase, Phase::Working) => self.begin_stop(Instant::now()),
                _ = self.inbox.recv_many(&mut batch, 512) => self.take_in(&mut batch, Instant::now()),
                hints = wakes.woken() => self.woken(hints, Instant::now()),
                () = timer => {}
            }
            if let Some(why) = self.lost.take() {
                self.start_over(why).await?;
            }
            if let Some(error) = self.broken.take() {
                return Err(error.into());
            }
            let now = Instant::now();
            self.tick(now);
            if self.is_over(now) {
                return self.end().await;
            }
        }
    }

    /// Events, and the hints that came meanwhile: while short jobs run there is always another event.
    pub(super) fn take_in(&mut self, events: &mut Vec<Event>, now: Instant) {
        for event in events.drain(..) {
            self.handle(event, now);
        }
        self.woken(self.wakes.take(), now);
    }

    /// One round: start what can start, write what has ended, ask for more.
    pub(super) fn tick(&mut self, now: Instant) {
        self.last_round = now;
        self.start_polls(now);
        if self.outage.until(now).is_none() {
            self.start_tick(now);
        }
        if matches!(self.phase, Phase::Working) {
            for queue in 0..self.queues.len() {
                self.start_runs(queue, now);
            }
            self.return_waiting_suspects(now);
        }
        self.flush_settles(now);
        self.flush_reports(now);
        if matches!(self.phase, Phase::Working) && self.outage.until(now).is_none() {
            self.refill(now);
            self.start_tuning(now);
            self.report_limits(now);
        }
    }

    pub(super) fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Ran { run, outcomes, busy } => self.ran(run, outcomes, busy, now),
            Event::Claimed { claim, result } => self.claimed(claim, result, now),
            Event::Granted { queue, kind, asked, wanted, result } => {
                self.granted((queue, kind), asked, wanted, result, now);
            }
            Event::Measured { queue, sla, result } => self.measured(queue, sla, result, now),
            Event::LimitsReported(result) => self.limits_reported(result, now),
            Event::Settled { batch, result } => self.settled(batch, result, now),
            Event::LookedUp(found) => self.looked_up(found),
            Event::Polled { asked, result } => self.polled(&asked, result, now),
            Event::Ticked { ticker, result } => self.ticked(ticker, result, now),
            Event::Reported => self.reported(),
            Event::Disowned(result) => self.disowned(result, now),
            Event::Lost { worker, why } if worker == self.worker_id() => self.lost = Some(why),
            Event::Lost { .. } => {}
        }
    }

    /// Never in the past: what is overdue waits for an event, not for the clock.
    pub(super) fn next_timer(&self, now: Instant) -> Instant {
        let outage = self.outage.until(now);
        let calm = outage.is_none();
        let groups = || self.queues.iter().filter(|queue| !queue.paused).flat_map(|queue| &queue.groups);
        let resting = groups().filter(|of| of.due && !of.claiming).filter_map(|of| of.rests_until);
        let tokens = groups()
            .filter_map(|of| of.tokens.as_ref()?.wakes_at(of.due || of.suspects.second || of.suspects.trial));
        let tuning = self.queues.iter().any(|queue| queue.tuner.is_some()).then_some(self.tune_at);
        let waiting = resting.chain(tokens).chain(tuning).filter(|at| *at > self.last_round);
        let poll = self.polls.wakes_at().filter(|_| calm);
        let delayed = groups().filter(|of| !of.due && !self.polls.is_under_way());
        let delayed = delayed.filter_map(|of| self.polls.instant(of.next_due?));
        let stop = match self.phase {
            Phase::Stopping { deadline } => Some(deadline.min(now + Duration::from_millis(100))),
            Phase::Working => None,
        };
        let next = waiting
            .chain(outage)
            .chain(poll)
            .chain(delayed)
            .chain(self.tick_at().filter(|_| calm))
            .chain(self.quarantine.wakes_at())
            .chain(self.settles.wakes_at().filter(|_| calm))
            .chain(stop)
            .fold(self.reports.wakes_at(!self.runs.is_empty()), Instant::min);
        next.max(now + Duration::from_millis(1))
    }

    pub(super) fn woken(&mut self, hints: Hints, now: Instant) {
        for queue in &mut self.queues {
            let (hinted, due) = (hints.queues.contains(&queue.id), hints.due.contains(&queue.id));
            for group in queue.groups.iter_mut().filter(|_| hinted || due) {
                group.wake();
                group.hinted |= hinted;
            }
        }
        if hints.any {
            self.polls.poll_at(now);
        }
        if hints.cancel {
            self.polls.look_for_cancels();
        }
    }

    /// A task that answers with an event.
    pub(super) fn spawn(&self, work: impl Future<Output = Event> + Send + 'static) -> AbortHandle {
        let events = self.events.clone();
        let task = tokio::spawn(async move {
            let _ = events.send(work.await);
        });
        task.abort_handle()
    }

    // Limits -----------------------------------------------------------------------------------------------------

    /// Starts every queue from nothing, with the limits the catalog knows.
    fn make_queues(&mut self, now: Instant) {
        let catalog = self.client.catalog();
        let work = |served: &QueueKinds| {
            let spec = catalog.queue(served.queue).map(|queue| &queue.spec);
            let configured = spec.map_or(1, |spec| spec.concurrency);
            let concurrency = self.options.concurrency.unwrap_or(configured);
            QueueWork::new(served.queue, concurrency, LateReserve::new(spec, now), now)
        };
        self.queues = self.roster.queues.iter().map(work).collect();
        self.limits = limits(&self.roster, &catalog);
        self.follow_limits(now);
    }

    pub(super) fn follow_limits(&mut self, now: Instant) {
        let Dispatcher { queues, grouping, roster, runs, limits, client, .. } = self;
        let running = |kind| {
            let of = |run: &&Run| run.jobs.first().is_some_and(|lease| lease.job.kind == kind);
            runs.values().filter(of).count() as u32
        };
        for (queue, served) in queues.iter_mut().zip(&roster.queues) {
            grouping.follow(queue, served, limits, (roster, client.pools()), running, now);
        }
        self.limit_reports.changed();
    }

    // Failures ---------------------------------------------------------------------------------------------------

    pub(super) fn store_failed(&mut self, doing: &str, error: StoreError, now: Instant) {
        if matches!(error, StoreError::Broken { .. }) {
            self.broken = Some(error);
            return;
        }
        if matches!(error, StoreError::SchemaMissing) {
            self.heart.beat_now();
        }
        if self.outage.failed(now) {
            tracing::warn!(error = error.chain(), "could not {doing}; trying again until it works");
        }
    }

    /// The lease is lost: other workers own everything that was leased here, so nothing of it is written.
    fn abandon(&mut self, why: &str) {
        let (worker, running) = (self.worker_id(), self.runs.len());
        tracing::warn!(%worker, running, "lease lost: {why}; starting over as a new worker");
        self.heart.stop();
        for (_, run) in self.runs.drain() {
            run.abort.abort();
        }
        self.settles.abandon();
        self.env.inside.clear();
        self.quarantine = Quarantine::default();
        for group in self.queues.iter_mut().flat_map(|queue| &mut queue.groups) {
            group.buffer.clear();
            group.running = 0;
            group.due = true;
        }
    }

    /// Part of the loop, not a step: nothing else can be done before the worker is registered again.
    async fn start_over(&mut self, why: &str) -> Result<(), EngineError> {
        self.abandon(why);
        if !matches!(self.phase, Phase::Working) {
            return Ok(());
        }
        let mut wait = Duration::from_millis(100);
        let worker = loop {
            match self.register().await {
                Ok(worker) => break worker,
                // Half a schema answers in many ways; only a store that lost what it had acknowledged is given up.
                Err(error) if !matches!(error, StoreError::Broken { .. }) && !*self.stop.borrow() => {
                    tracing::warn!(error = error.chain(), "could not register again; trying until it works");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        };
        self.make_queues(Instant::now());
        self.worker.send_replace(worker);
        let store = self.client.store().clone();
        self.heart = Heart::start(store, worker, self.options.lease, self.events.clone());
        Ok(())
    }

    /// The old registration may have gone with the whole schema. So the registry is read again, and with it the numbers
    /// of kinds and queues: a new schema may have given a number to another kind.
    async fn register(&mut self) -> Result<WorkerId, StoreError> {
        self.client.refresh().await?;
        self.roster = self.roster.renumbered(&self.client);
        self.client.store().register_worker(&self.roster.info(&self.options)).await
    }

    // Stopping ---------------------------------------------------------------------------------------------------

    pub(super) fn begin_stop(&mut self, now: Instant) {
        self.phase = Phase::Stopping { deadline: now + self.options.grace };
        let (store, worker) = (self.client.store().clone(), self.worker_id());
        tokio::spawn(async move {
            if let Err(error) = store.announce_stop(worker).await {
                tracing::debug!(error = error.chain(), "the stop was not announced");
            }
        });
        self.hand_back_buffers(now);
    }

    fn hand_back_buffers(&mut self, now: Instant) {
        let groups = self.queues.iter_mut().flat_map(|queue| &mut queue.groups);
        let unstarted: Vec<Lease> = groups.flat_map(|group| group.buffer.drain(..)).collect();
        for lease in unstarted {
            let back = hand_back(&lease.job);
            self.end_attempt(lease, Verdict::Return(back), now);
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
        let gave_up = now >= deadline + LONGEST_PAUSE;
        self.flush_settles(now);
        (self.is_idle() && !self.settles.looks_up()) || gave_up
    }

    pub(super) async fn end(mut self) -> Result<(), EngineError> {
        self.heart.stop();
        let store = self.client.store();
        write_reports(&**store, self.env.reports.take()).await;
        write_rollups(&**store, self.reports.tally.take()).await;
        store.retire_worker(self.worker_id()).await?;
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
