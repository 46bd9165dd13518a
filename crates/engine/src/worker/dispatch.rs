//! The dispatcher: all state of a worker process, and one step for each thing that can happen to it.
//!
//! Nothing is claimed that cannot start soon, nothing is settled twice, and nothing here waits on the database:
//! claims, settles and polls run as tasks and come back as [`Event`]s.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use windlass_core::store::{Claim, Poll, QueueDue, Report, Settled};
use windlass_core::{
    JobId, KindId, LeasedJob, Outcome, QueueId, Settlement, StoreError, Time, Token, Verdict, WorkerId,
};

use super::pace::Pace;
use super::quarantine::{Quarantine, Step};
use super::report::ReportSender;
use super::tally::Tally;
use super::wake::{Hints, WakeBox};
use super::{Roster, Served, WorkerOptions, heart, run};
use crate::handler::{decide, settlement};
use crate::{Client, EngineError};

const MAX_CLAIM: u32 = 1_000;
/// Ended attempts waiting for their settle above which nothing more is claimed.
const MAX_UNSETTLED: usize = 10_000;
const MAX_SETTLE: usize = 2_000;
const ROLLUP_EVERY: Duration = Duration::from_secs(10);
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// A queue whose suspect turned out not to be ours is not asked again for this long.
const SUSPECT_REST: Duration = Duration::from_secs(5);
/// An emptied queue is looked at for what comes next, but not more often than this.
const POLL_GAP: Duration = Duration::from_millis(100);
const MAX_TROUBLE: Duration = Duration::from_secs(5);

pub(crate) enum Event {
    Ran {
        run: u64,
        outcomes: Vec<Outcome>,
    },
    Claimed {
        worker: WorkerId,
        queue: QueueId,
        suspect: Option<bool>,
        result: Result<Vec<LeasedJob>, StoreError>,
    },
    Settled {
        batch: Vec<Settlement>,
        result: Result<Vec<Settled>, StoreError>,
    },
    Polled(Result<Poll, StoreError>),
    Lost {
        worker: WorkerId,
        why: &'static str,
    },
    Reported,
}

struct QueueWork {
    id: QueueId,
    kinds: Vec<KindId>,
    concurrency: u32,
    paused: bool,
    running: u32,
    buffer: VecDeque<(Arc<LeasedJob>, Instant)>,
    /// Something may be due.
    due: bool,
    /// A hint arrived while a claim was under way, so an empty answer proves nothing.
    due_again: bool,
    claiming: bool,
    next_due: Option<Time>,
    suspect: bool,
    suspect_rest: Option<Instant>,
    pace: Pace,
}

struct Run {
    queue: usize,
    served: Arc<Served>,
    jobs: Vec<(Arc<LeasedJob>, Instant)>,
    started: Instant,
    abort: AbortHandle,
}

enum Phase {
    Working,
    Stopping { deadline: Instant },
}

pub(crate) struct Dispatcher {
    client: Client,
    roster: Roster,
    options: WorkerOptions,
    worker: watch::Sender<WorkerId>,
    stop: watch::Receiver<bool>,
    phase: Phase,
    events: mpsc::UnboundedSender<Event>,
    inbox: mpsc::UnboundedReceiver<Event>,
    wakes: WakeBox,
    queues: Vec<QueueWork>,
    runs: HashMap<u64, Run>,
    next_run: u64,
    unsettled: VecDeque<Settlement>,
    settling: bool,
    reports: ReportSender,
    reporting: bool,
    tally: Tally,
    quarantine: Quarantine,
    polling: bool,
    poll_at: Instant,
    polled_at: Instant,
    /// Database clock at an instant of ours, from the last poll.
    clock: Option<(Time, Instant)>,
    report_at: Instant,
    rollup_at: Instant,
    trouble: Option<(Instant, Duration)>,
    broken: Option<StoreError>,
    heart: JoinHandle<()>,
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
        let (waker, now) = (wakes.clone(), Instant::now());
        client.store().on_wake(Box::new(move |wake| waker.put(wake)));
        let catalog = client.catalog();
        let queues = roster.queues.iter().map(|(id, kinds)| {
            let configured = catalog.queue(*id).map_or(1, |q| q.spec.concurrency);
            QueueWork {
                id: *id,
                kinds: kinds.clone(),
                concurrency: options.concurrency.unwrap_or(configured),
                paused: false,
                running: 0,
                buffer: VecDeque::new(),
                due: false,
                due_again: false,
                claiming: false,
                next_due: None,
                suspect: false,
                suspect_rest: None,
                pace: Pace::new(now),
            }
        });
        // One query looks at all queues, so it is as frequent as the most demanding of them asks.
        let cadence =
            roster.queues.iter().filter_map(|(id, _)| catalog.queue(*id)).map(|q| q.spec.cadence).min();
        options.poll = cadence.map_or(options.poll, |cadence| options.poll.min(cadence));
        let heart = tokio::spawn(heart::beat(client.store().clone(), worker, options.lease, events.clone()));
        Dispatcher {
            queues: queues.collect(),
            client,
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
            reports: ReportSender::default(),
            reporting: false,
            tally: Tally::default(),
            quarantine: Quarantine::default(),
            polling: false,
            poll_at: now,
            polled_at: now,
            clock: None,
            report_at: now + REPORT_EVERY,
            rollup_at: now + ROLLUP_EVERY,
            trouble: None,
            broken: None,
            heart,
        }
    }

    pub(crate) fn worker_watch(&self) -> watch::Receiver<WorkerId> {
        self.worker.subscribe()
    }

    fn worker_id(&self) -> WorkerId {
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
    fn tick(&mut self, now: Instant) {
        self.start_polls(now);
        for queue in 0..self.queues.len() {
            self.start_runs(queue, now);
        }
        self.flush_settles(now);
        self.flush_reports(now);
        if matches!(self.phase, Phase::Working) && self.trouble.is_none_or(|(until, _)| now >= until) {
            self.refill(now);
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), EngineError> {
        match event {
            Event::Ran { run, outcomes } => self.ran(run, outcomes, Instant::now()),
            Event::Claimed { worker, queue, suspect, result } => self.claimed(worker, queue, suspect, result),
            Event::Settled { batch, result } => self.settled(batch, result),
            Event::Polled(result) => self.polled(result),
            Event::Reported => self.reporting = false,
            Event::Lost { worker, why } if worker == self.worker_id() => self.reincarnate(why).await?,
            Event::Lost { .. } => {}
        }
        Ok(())
    }

    fn next_timer(&self) -> Instant {
        let mut next = self.poll_at.min(self.rollup_at);
        if let (Some((at, instant)), false) = (self.clock, self.polling) {
            for due in self.queues.iter().filter(|q| !q.due && !q.paused).filter_map(|q| q.next_due) {
                next = next.min(instant + due.since(at));
            }
        }
        if !self.runs.is_empty() {
            next = next.min(self.report_at);
        }
        if let Phase::Stopping { deadline } = self.phase {
            next = next.min(deadline).min(Instant::now() + Duration::from_millis(100));
        }
        if let Some((until, _)) = self.trouble {
            next = next.min(until);
        }
        next
    }

    // What is due ------------------------------------------------------------------------------------------------

    fn woken(&mut self, hints: Hints) {
        for queue in self.queues.iter_mut().filter(|q| hints.queues.contains(&q.id)) {
            queue.due = true;
            queue.due_again = true;
        }
        if hints.any {
            self.poll_at = Instant::now();
        }
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
        if now >= self.poll_at && !self.polling {
            self.polling = true;
            self.polled_at = now;
            self.poll_at = now + self.options.poll;
            let (store, events, worker) =
                (self.client.store().clone(), self.events.clone(), self.worker_id());
            tokio::spawn(async move {
                let _ = events.send(Event::Polled(store.poll(worker).await));
            });
        }
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
    }

    // Claiming ---------------------------------------------------------------------------------------------------

    fn refill(&mut self, now: Instant) {
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
    fn is_idle(&self) -> bool {
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
        let ahead = work.pace.prefetch(self.options.prefetch);
        let held = work.running + work.buffer.len() as u32;
        let wanted = (work.concurrency + ahead).saturating_sub(held);
        // While jobs are short, wait for room worth a statement.
        if wanted == 0 || (wanted < ahead / 2 && work.buffer.len() as u32 > ahead / 2) {
            return;
        }
        self.claim(queue, wanted.min(MAX_CLAIM), None);
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
            let mut result = store.claim(&claim).await;
            if suspect == Some(false)
                && let Ok(jobs) = &result
                && let Some(job) = jobs.first()
                && let Err(error) = store.in_company(job.token).await
            {
                result = Err(error);
            }
            let _ = events.send(Event::Claimed { worker, queue, suspect, result });
        });
    }

    fn claimed(
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
            Ok(jobs) => jobs,
            Err(error) => {
                if suspect.is_some() {
                    self.quarantine.claimed(None, now);
                }
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
            // An empty-handed claim proves the queue empty unless a hint came meanwhile. What made somebody look may
            // be a delayed job, whose time only a poll tells.
            work.due = work.due_again || !jobs.is_empty();
            if !work.due {
                self.poll_at = self.poll_at.min(self.polled_at + POLL_GAP);
            }
        }
        // Leased by an incarnation that is no more: others have these jobs.
        if current {
            work.buffer.extend(jobs.into_iter().map(|job| (Arc::new(job), now)));
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

    // Running ----------------------------------------------------------------------------------------------------

    fn start_runs(&mut self, queue: usize, now: Instant) {
        while !self.queues[queue].buffer.is_empty()
            && self.queues[queue].running < self.queues[queue].concurrency
        {
            let work = &mut self.queues[queue];
            let Some(first) = work.buffer.pop_front() else { return };
            let Some(served) = self.roster.kinds.get(&first.0.kind).cloned() else {
                // A claim asks only for handled kinds, so this is a store's fault; the job must not be lost for it.
                self.end_attempt(&first.0, first.1, Verdict::Return(hand_back(&first.0)), now);
                continue;
            };
            let mut jobs = vec![first];
            let size = served.handler.batch_size();
            while jobs.len() < size && work.buffer.front().is_some_and(|(job, _)| job.kind == jobs[0].0.kind)
            {
                jobs.extend(work.buffer.pop_front());
            }
            work.running += 1;
            self.spawn_run(queue, served, jobs, now);
        }
    }

    fn spawn_run(
        &mut self,
        queue: usize,
        served: Arc<Served>,
        jobs: Vec<(Arc<LeasedJob>, Instant)>,
        now: Instant,
    ) {
        let run = self.next_run;
        self.next_run += 1;
        let leased: Vec<Arc<LeasedJob>> = jobs.iter().map(|(job, _)| job.clone()).collect();
        let events = self.events.clone();
        let work = run::run(served.clone(), leased, self.client.clone(), self.reports.clone());
        let task = tokio::spawn(async move {
            let outcomes = work.await;
            let _ = events.send(Event::Ran { run, outcomes });
        });
        self.runs.insert(run, Run { queue, served, jobs, started: now, abort: task.abort_handle() });
    }

    fn ran(&mut self, run: u64, outcomes: Vec<Outcome>, now: Instant) {
        // An aborted run may have answered just before; whoever removed it has settled it.
        let Some(run) = self.runs.remove(&run) else { return };
        let work = &mut self.queues[run.queue];
        work.running -= 1;
        work.pace.finished(run.jobs.len() as u32, now);
        for ((job, received), outcome) in run.jobs.into_iter().zip(outcomes) {
            let verdict = decide(&job, outcome, &run.served.spec);
            let ended = job.claimed_at.plus(now.saturating_duration_since(received));
            self.tally.count(&job, &verdict, ended, now.saturating_duration_since(run.started));
            let started = job.claimed_at.plus(run.started.saturating_duration_since(received));
            self.unsettled.push_back(settlement(&job, started, verdict));
        }
    }

    fn end_attempt(&mut self, job: &LeasedJob, received: Instant, verdict: Verdict, now: Instant) {
        let at = job.claimed_at.plus(now.saturating_duration_since(received));
        self.unsettled.push_back(settlement(job, at, verdict));
    }

    fn cancel(&mut self, id: JobId) {
        let now = Instant::now();
        for queue in 0..self.queues.len() {
            if let Some(place) = self.queues[queue].buffer.iter().position(|(job, _)| job.id == id)
                && let Some((job, received)) = self.queues[queue].buffer.remove(place)
            {
                let verdict = decide_unrun(&job, Outcome::Cancelled);
                self.end_attempt(&job, received, verdict, now);
            }
        }
        let found = self.runs.iter().find(|(_, run)| run.jobs.iter().any(|(job, _)| job.id == id));
        if let Some(run) = found.map(|(run, _)| *run) {
            self.abort(run, now, |job| if job.id == id { Outcome::Cancelled } else { Outcome::HandBack });
        }
    }

    /// Stops a run and writes what `outcome` says for each of its jobs.
    fn abort(&mut self, run: u64, now: Instant, outcome: impl Fn(&LeasedJob) -> Outcome) {
        let Some(run) = self.runs.remove(&run) else { return };
        run.abort.abort();
        self.queues[run.queue].running -= 1;
        for (job, received) in run.jobs {
            let verdict = decide_unrun(&job, outcome(&job));
            self.end_attempt(&job, received, verdict, now);
        }
    }

    // Settling ---------------------------------------------------------------------------------------------------

    fn flush_settles(&mut self, now: Instant) {
        if self.settling || self.unsettled.is_empty() || self.trouble.is_some_and(|(until, _)| now < until) {
            return;
        }
        let size = self.unsettled.len().min(MAX_SETTLE);
        let batch: Vec<Settlement> = self.unsettled.drain(..size).collect();
        let reports = self.reports.take();
        let (store, events) = (self.client.store().clone(), self.events.clone());
        self.settling = true;
        tokio::spawn(async move {
            // A settled job takes no more reports, so its last ones go first.
            write_reports(&*store, reports).await;
            let result = store.settle(&batch).await;
            let _ = events.send(Event::Settled { batch, result });
        });
    }

    fn settled(&mut self, batch: Vec<Settlement>, result: Result<Vec<Settled>, StoreError>) {
        self.settling = false;
        match result {
            Ok(answers) => {
                self.trouble = None;
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
                    self.quarantine.ended();
                }
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

    fn flush_reports(&mut self, now: Instant) {
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

    // Trouble ----------------------------------------------------------------------------------------------------

    fn troubled(&mut self, doing: &str, error: StoreError) {
        if matches!(error, StoreError::Broken { .. }) {
            self.broken = Some(error);
            return;
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
        let info = self.roster.info(&self.options);
        let mut wait = Duration::from_millis(100);
        let worker = loop {
            match self.client.store().register_worker(&info).await {
                Ok(worker) => break worker,
                Err(error) if error.is_transient() && !*self.stop.borrow() => {
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
        ));
        Ok(())
    }

    // Stopping ---------------------------------------------------------------------------------------------------

    fn begin_stop(&mut self, now: Instant) {
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

    fn is_over(&mut self, now: Instant) -> bool {
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
        self.is_idle() || gave_up
    }

    async fn end(mut self) -> Result<(), EngineError> {
        self.heart.abort();
        write_reports(&**self.client.store(), self.reports.take()).await;
        let rollups = self.tally.take();
        if !rollups.is_empty() {
            self.client.store().record(&rollups).await?;
        }
        self.client.store().retire_worker(self.worker_id()).await?;
        Ok(())
    }
}

async fn write_reports(store: &dyn windlass_core::Store, reports: Vec<Report>) {
    if !reports.is_empty()
        && let Err(error) = store.report(&reports).await
    {
        tracing::warn!(lines = reports.len(), error = error.chain(), "progress and log lines were lost");
    }
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

fn decide_unrun(job: &LeasedJob, outcome: Outcome) -> Verdict {
    windlass_core::outcome::decide(job, outcome, &windlass_core::Backoff::default(), 0.0)
}

fn hand_back(job: &LeasedJob) -> windlass_core::outcome::Return {
    match decide_unrun(job, Outcome::HandBack) {
        Verdict::Return(back) => back,
        Verdict::End { .. } => unreachable!("a handed-back job never ends"),
    }
}
