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
use windlass_core::store::{Counted, Poll, QueueDue, QueueKinds, Settled};
use windlass_core::{
    KindId, LeasedJob, Outcome, QueueId, Settlement, StoreError, Time, Token, Verdict, WorkerId,
};

use super::claims::Doubt;
use super::pace::Pace;
use super::quarantine::Quarantine;
use super::runs::hand_back;
use super::settles::{MAX_SETTLE, REPORT_EVERY, ROLLUP_EVERY, write_reports};
use super::tally::{ClaimTimes, Ran, Tally};
use super::wake::{Hints, WakeBox};
use super::{Roster, Served, WorkerOptions, heart};
use crate::handler::Desk;
use crate::{Catalog, Client, EngineError};

const MAX_TROUBLE: Duration = Duration::from_secs(5);

pub(super) enum Event {
    Ran {
        run: u64,
        outcomes: Vec<Outcome>,
    },
    Claimed {
        worker: WorkerId,
        queue: QueueId,
        suspect: Option<bool>,
        took: Duration,
        result: Result<Vec<LeasedJob>, StoreError>,
    },
    Settled {
        batch: Vec<Ended>,
        result: Result<Vec<Settled>, StoreError>,
    },
    /// What stands in the database of runs whose settlement came too late to say.
    LookedUp(Vec<(Ended, Option<Counted>)>),
    Polled(Result<Poll, StoreError>),
    Lost {
        worker: WorkerId,
        why: &'static str,
    },
    Disowned(Result<u64, StoreError>),
    Reported,
}

pub(super) struct QueueWork {
    pub(super) id: QueueId,
    pub(super) kinds: Vec<KindId>,
    /// Runs at once; each takes up to `batch` jobs.
    pub(super) concurrency: u32,
    pub(super) batch: u32,
    pub(super) paused: bool,
    pub(super) running: u32,
    pub(super) buffer: VecDeque<(Arc<LeasedJob>, Instant)>,
    /// Something may be due.
    pub(super) due: bool,
    /// A hint arrived while a claim was under way, so an empty answer proves nothing.
    pub(super) due_again: bool,
    /// What makes it due is a hint, which may have been about a delayed job.
    pub(super) hinted: bool,
    pub(super) claiming: bool,
    pub(super) next_due: Option<Time>,
    pub(super) suspect: bool,
    pub(super) suspect_rest: Option<Instant>,
    pub(super) pace: Pace,
}

impl QueueWork {
    fn new(
        served: &QueueKinds,
        catalog: &Catalog,
        roster: &Roster,
        options: &WorkerOptions,
        now: Instant,
    ) -> QueueWork {
        let configured = catalog.queue(served.queue).map_or(1, |q| q.spec.concurrency);
        QueueWork {
            id: served.queue,
            kinds: served.kinds.clone(),
            concurrency: options.concurrency.unwrap_or(configured),
            batch: roster.batch(&served.kinds),
            paused: false,
            running: 0,
            buffer: VecDeque::new(),
            due: false,
            due_again: false,
            hinted: false,
            claiming: false,
            next_due: None,
            suspect: false,
            suspect_rest: None,
            pace: Pace::new(now),
        }
    }
}

/// One query looks at all queues, so it is as frequent as the most demanding of them asks.
fn poll_every(roster: &Roster, catalog: &Catalog, wanted: Duration) -> Duration {
    let queues = roster.queues.iter().filter_map(|served| catalog.queue(served.queue));
    queues.map(|queue| queue.spec.cadence).min().map_or(wanted, |cadence| wanted.min(cadence))
}

pub(super) struct Run {
    pub(super) queue: usize,
    pub(super) served: Arc<Served>,
    pub(super) jobs: Vec<(Arc<LeasedJob>, Instant)>,
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
    pub(super) runs: HashMap<u64, Run>,
    pub(super) next_run: u64,
    pub(super) unsettled: VecDeque<Ended>,
    pub(super) settling: bool,
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
    pub(super) report_at: Instant,
    pub(super) rollup_at: Instant,
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
        let catalog = client.catalog();
        let queues = queue_works(&client, &roster, &options, now);
        options.poll = poll_every(&roster, &catalog, options.poll);
        let alive = Arc::new(Notify::new());
        let beating =
            heart::beat(client.store().clone(), worker, options.lease, events.clone(), alive.clone());
        let heart = tokio::spawn(beating);
        Dispatcher {
            queues,
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
            desk: Desk::new(client.clone()),
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
        }
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
                _ = self.inbox.recv_many(&mut batch, 512) => {
                    for event in batch.drain(..) {
                        self.handle(event).await?;
                    }
                }
                hints = wakes.woken() => self.woken(hints),
                _ = stop.changed(), if matches!(self.phase, Phase::Working) => self.begin_stop(Instant::now()),
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

    /// One round: start what can start, write what has ended, ask for more.
    pub(super) fn tick(&mut self, now: Instant) {
        self.start_polls(now);
        if matches!(self.phase, Phase::Working) {
            for queue in 0..self.queues.len() {
                self.start_runs(queue, now);
            }
        }
        self.flush_settles(now);
        self.flush_reports(now);
        if matches!(self.phase, Phase::Working) && !self.is_troubled(now) {
            self.refill(now);
        }
    }

    pub(super) async fn handle(&mut self, event: Event) -> Result<(), EngineError> {
        match event {
            Event::Ran { run, outcomes } => self.ran(run, outcomes, Instant::now()),
            Event::Claimed { worker, queue, suspect, took, result } => {
                self.claim_times.put(took);
                self.claimed(worker, queue, suspect, result);
            }
            Event::Settled { batch, result } => self.settled(batch, result),
            Event::LookedUp(found) => self.looked_up(found),
            Event::Polled(result) => self.polled(result),
            Event::Reported => self.reporting = false,
            Event::Disowned(result) => self.disowned(result),
            Event::Lost { worker, why } if worker == self.worker_id() => self.reincarnate(why).await?,
            Event::Lost { .. } => {}
        }
        Ok(())
    }

    /// Never in the past: what is overdue waits for an event, not for the clock.
    fn next_timer(&self) -> Instant {
        let now = Instant::now();
        let mut next = self.rollup_at;
        match self.trouble {
            Some((until, _)) if now < until => next = next.min(until),
            _ if !self.polling => next = next.min(self.poll_at),
            _ => {}
        }
        if let (Some((at, instant)), false) = (self.clock, self.polling) {
            for due in self.queues.iter().filter(|q| !q.due && !q.paused).filter_map(|q| q.next_due) {
                next = next.min(instant + due.since(at));
            }
        }
        if let Some(at) = self.quarantine.wakes_at() {
            next = next.min(at.max(now));
        }
        if !self.runs.is_empty() {
            next = next.min(self.report_at);
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
        for queue in self.queues.iter_mut().filter(|q| hints.queues.contains(&q.id)) {
            queue.due = true;
            queue.due_again = true;
            queue.hinted = true;
        }
        if hints.any {
            self.poll_at = Instant::now();
        }
        self.look_for_cancels |= hints.cancel;
    }

    fn start_polls(&mut self, now: Instant) {
        if let Some((at, instant)) = self.clock {
            let here = at.plus(now.saturating_duration_since(instant));
            for queue in &mut self.queues {
                if queue.next_due.is_some_and(|due| due <= here) {
                    queue.due = true;
                    queue.due_again = true;
                    queue.next_due = None;
                }
            }
        }
        if self.polling || self.is_troubled(now) {
            return;
        }
        if now >= self.poll_at {
            self.polled_at = now;
            self.poll_at = now + self.options.poll;
            self.start_poll(self.roster.queues.clone());
        } else if self.look_for_cancels {
            self.start_poll(Vec::new());
        }
    }

    /// Every poll says what to stop; one without queues nothing else.
    fn start_poll(&mut self, served: Vec<QueueKinds>) {
        self.polling = true;
        self.look_for_cancels = false;
        let (store, events, worker) = (self.client.store().clone(), self.events.clone(), self.worker_id());
        tokio::spawn(async move {
            let _ = events.send(Event::Polled(answered("poll", store.poll(worker, &served)).await));
        });
    }

    fn polled(&mut self, result: Result<Poll, StoreError>) {
        self.polling = false;
        let poll = match result {
            Ok(poll) => poll,
            Err(error) => return self.troubled("look for work", error),
        };
        self.trouble = None;
        let now = Instant::now();
        self.clock = Some((poll.now, now));
        for found in &poll.queues {
            let Some(queue) = self.queues.iter_mut().find(|q| q.id == found.queue) else { continue };
            apply(queue, found, poll.now, self.options.concurrency, now);
        }
        for id in poll.cancel {
            self.cancel(id);
        }
        self.return_surplus(now);
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
        for queue in &mut self.queues {
            queue.buffer.clear();
            queue.running = 0;
            queue.due = true;
        }
        self.heart.abort();
        if !matches!(self.phase, Phase::Working) {
            return Ok(());
        }
        let mut wait = Duration::from_millis(100);
        let worker = loop {
            match self.enlist().await {
                Ok(worker) => break worker,
                Err(error) if can_return(&error) && !*self.stop.borrow() => {
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
        self.queues = queue_works(&self.client, &self.roster, &self.options, Instant::now());
        self.client.store().register_worker(&self.roster.info(&self.options)).await
    }

    // Stopping ---------------------------------------------------------------------------------------------------

    pub(super) fn begin_stop(&mut self, now: Instant) {
        self.phase = Phase::Stopping { deadline: now + self.options.grace };
        self.hand_back_buffers(now);
    }

    fn hand_back_buffers(&mut self, now: Instant) {
        for queue in 0..self.queues.len() {
            while let Some((job, received)) = self.queues[queue].buffer.pop_front() {
                self.end_attempt(&job, received, Verdict::Return(hand_back(&job)), now);
            }
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
fn can_return(error: &StoreError) -> bool {
    error.is_transient() || matches!(error, StoreError::SchemaMissing)
}

fn queue_works(client: &Client, roster: &Roster, options: &WorkerOptions, now: Instant) -> Vec<QueueWork> {
    let catalog = client.catalog();
    roster.queues.iter().map(|served| QueueWork::new(served, &catalog, roster, options, now)).collect()
}

fn apply(queue: &mut QueueWork, found: &QueueDue, at: Time, concurrency: Option<u32>, now: Instant) {
    queue.paused = found.paused;
    queue.concurrency = concurrency.unwrap_or(found.concurrency);
    queue.next_due = found.next_due.filter(|due| *due > at);
    if found.next_due.is_some_and(|due| due <= at) {
        queue.due = true;
        queue.due_again = true;
    }
    if queue.suspect_rest.is_none_or(|until| now >= until) {
        queue.suspect_rest = None;
        queue.suspect = found.suspect;
    }
}

/// A store call whose panic becomes an error: without an answer the dispatcher would wait for ever.
pub(super) async fn answered<T>(
    what: &'static str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let guarded = std::panic::AssertUnwindSafe(call).catch_unwind().await;
    guarded.unwrap_or_else(|_| Err(StoreError::Corrupt { what: format!("{what} panicked") }))
}
