//! The dispatcher, step by step, against a real SQLite store.
//!
//! Time is the test's, for dispatcher and database: it passes when a test says so, or from timer to timer while a test
//! waits. Jobs run until the test lets them end. What is asserted is seen from outside: what the store was asked, which
//! handlers started, what the store holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use windlass_core::schedule::{RuleSpec, ScheduleSpec};
use windlass_core::store::{Action, JobFilter, Wake};
use windlass_core::sweep::Death;
use windlass_core::{JobId, JobState, KindSpec, QueueId, QueueSpec, Store, StoreError, Time};
use windlass_store_sqlite::SqliteStore;

mod limits;

use super::dispatch::{Dispatcher, Event};
use super::pace::Pace;
use super::settles::BATCH_DELAY;
use super::wake::Hints;
use super::{Roster, WorkerOptions};
use crate::{Client, Completion, Handlers, JobError, JobRequest, handler};

const SOON: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Deserialize)]
enum Say {
    Done,
    Again,
}

struct Bench {
    dispatcher: Dispatcher,
    client: Client,
    /// One permit lets one run end.
    gate: Arc<Semaphore>,
    started: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    /// Tasks that are neither a run nor a call of the store.
    other_tasks: usize,
    now: Instant,
    passed: Duration,
    /// The answers handled so far: what the store was asked.
    asked: Vec<String>,
    folder: TempDir,
}

/// Counts a handler as running until it ends or is aborted.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(count: &Arc<AtomicUsize>) -> Running {
        count.fetch_add(1, Ordering::Relaxed);
        Running(count.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What can be seen from outside once no call is under way.
struct Seen {
    started: usize,
    running: usize,
    /// Running jobs and those leased ahead of them.
    leased: u64,
    pending: u64,
    completed: u64,
    cancelled: u64,
}

impl Bench {
    async fn new(options: WorkerOptions) -> Bench {
        let queue = QueueSpec { cadence: HOUR, ..QueueSpec::named("MAIN") };
        Bench::of(options, queue, &[KindSpec::new("SAY", "MAIN")]).await
    }

    /// Changes the database from outside.
    fn sql(&self, text: &str) {
        let connection = rusqlite::Connection::open(self.folder.path().join("windlass.db")).unwrap();
        connection.execute_batch(text).unwrap();
    }

    /// Every kind does what its payload says once the gate lets it.
    async fn of(options: WorkerOptions, queue: QueueSpec, kinds: &[KindSpec]) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("windlass.db"), Default::default()).unwrap();
        store.migrate_up(None).await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let (started, running) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let mut handlers = Handlers::default();
        for kind in kinds {
            let (waits, started, running) = (gate.clone(), started.clone(), running.clone());
            let run = move |_, say: Say| {
                let (waits, started, running) = (waits.clone(), started.clone(), running.clone());
                async move {
                    started.fetch_add(1, Ordering::Relaxed);
                    let _running = Running::new(&running);
                    waits.acquire().await?.forget();
                    match say {
                        Say::Done => Ok(Completion::done()),
                        Say::Again => Err(JobError::retry_after(HOUR, "as asked")),
                    }
                }
            };
            handlers.add(kind.clone(), handler(run));
        }
        let client = Client::open(Arc::new(store), &[queue], &handlers.specs()).await.unwrap();
        let options = WorkerOptions { poll: HOUR, ..options };
        let roster = Roster::new(&client, &handlers, &[]).unwrap();
        let worker = client.store().register_worker(&roster.info(&options)).await.unwrap();
        let now = Instant::now();
        // The sender is dropped, which no step looks at: stopping is a step of its own.
        let stop = watch::channel(false).1;
        let dispatcher = Dispatcher::new(client.clone(), roster, options, worker, stop, now);
        let (other_tasks, asked) = (tasks(), Vec::new());
        Bench {
            dispatcher,
            client,
            gate,
            started,
            running,
            other_tasks,
            now,
            passed: Duration::ZERO,
            asked,
            folder,
        }
    }

    async fn with(concurrency: u32, jobs: usize, say: &str) -> (Bench, Vec<JobId>) {
        let options =
            WorkerOptions { concurrency: Some(concurrency), prefetch: 0, ..WorkerOptions::default() };
        let bench = Bench::new(options).await;
        let ids = bench.put(jobs, say).await;
        (bench, ids)
    }

    async fn put(&self, jobs: usize, say: &str) -> Vec<JobId> {
        self.put_of("SAY", jobs, say).await
    }

    async fn put_of(&self, kind: &str, jobs: usize, say: &str) -> Vec<JobId> {
        let requests = (0..jobs).map(|_| JobRequest::new(kind, format!("\"{say}\"").into_bytes())).collect();
        self.client.enqueue_many(requests).await.unwrap().iter().map(|e| e.id).collect()
    }

    fn queue(&self) -> QueueId {
        self.client.catalog().queue_named("MAIN").unwrap().id
    }

    /// The database's clock follows; it also goes on by itself.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.passed += time;
        self.client.store().set_clock_offset(self.passed.as_micros() as i64);
    }

    /// As when a job was enqueued, due now or later.
    fn hint(&mut self) {
        self.dispatcher.woken(Hints { queues: vec![self.queue()], ..Hints::default() }, self.now);
    }

    /// The next event, not handled yet.
    async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(SOON, self.dispatcher.inbox.recv()).await;
        event.expect("something happens").expect("the dispatcher holds a sender")
    }

    fn handle(&mut self, event: Event) {
        self.asked.extend(told(&event));
        self.dispatcher.handle(event, self.now);
    }

    /// Lets one run end and hands its outcome to the dispatcher, which does nothing about it before its next round.
    async fn one_ends(&mut self) {
        self.gate.add_permits(1);
        let ran = self.event().await;
        assert!(matches!(ran, Event::Ran { .. }));
        self.handle(ran);
    }

    /// Handles events until no call of the store is under way.
    async fn answers(&mut self) {
        let deadline = Instant::now() + SOON;
        // Runs that the gate let go are still counted as running before they are polled.
        tokio::task::yield_now().await;
        loop {
            match self.dispatcher.inbox.try_recv() {
                Ok(event) => self.handle(event),
                Err(_) if tasks() <= self.other_tasks + self.running.load(Ordering::Relaxed) => return,
                Err(_) => {
                    assert!(Instant::now() < deadline, "a call of the store is not answered");
                    let wait = tokio::time::timeout(Duration::from_millis(1), self.dispatcher.inbox.recv());
                    if let Ok(Some(event)) = wait.await {
                        self.handle(event);
                    }
                }
            }
        }
    }

    /// One round with its answers; returns what the store was asked.
    async fn round(&mut self) -> Vec<String> {
        self.asked.clear();
        self.dispatcher.tick(self.now);
        self.answers().await;
        self.asked.clone()
    }

    /// Rounds until one asks nothing. Does not hear the store's hints: tests give those. No time passes.
    async fn rest(&mut self) {
        let deadline = Instant::now() + SOON;
        loop {
            assert!(Instant::now() < deadline, "it does not come to rest");
            let before = (self.asked.len(), self.started.load(Ordering::Relaxed));
            self.dispatcher.tick(self.now);
            self.answers().await;
            if before == (self.asked.len(), self.started.load(Ordering::Relaxed)) {
                return;
            }
        }
    }

    async fn seen(&self) -> Seen {
        Seen {
            started: self.started.load(Ordering::Relaxed),
            running: self.running.load(Ordering::Relaxed),
            leased: self.count(JobState::Running).await,
            pending: self.count(JobState::Pending).await,
            completed: self.count(JobState::Completed).await,
            cancelled: self.count(JobState::Cancelled).await,
        }
    }

    /// Rounds until `is_so`, with time passing from timer to timer.
    async fn until(&mut self, is_so: impl Fn(&Seen) -> bool) -> Seen {
        self.until_with(is_so, false).await
    }

    /// The same with the store's hints, as the loop hears them, and without a timer.
    async fn until_woken(&mut self, is_so: impl Fn(&Seen) -> bool) -> Seen {
        self.until_with(is_so, true).await
    }

    async fn until_with(&mut self, is_so: impl Fn(&Seen) -> bool, hears: bool) -> Seen {
        let deadline = Instant::now() + SOON;
        loop {
            self.rest().await;
            let seen = self.seen().await;
            if is_so(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "it does not come to be so");
            if hears {
                let wakes = self.dispatcher.wakes.clone();
                let hints = tokio::time::timeout(SOON, wakes.woken()).await.expect("the store gives a hint");
                self.dispatcher.woken(hints, self.now);
            } else {
                self.pass(self.dispatcher.next_timer(self.now) - self.now);
            }
        }
    }

    async fn count(&self, state: JobState) -> u64 {
        let filter = JobFilter { states: vec![state], ..JobFilter::default() };
        self.client.store().count(&filter).await.unwrap()
    }

    /// As if runs had been ending at a great rate; seven jobs may be leased ahead.
    fn hurry(&mut self) {
        self.dispatcher.options.prefetch = 7;
        self.set_pace(1_000_000, Duration::ZERO);
    }

    /// As if `jobs` jobs had ended in the last second, having taken `took` together.
    fn set_pace(&mut self, jobs: u32, took: Duration) {
        for group in self.dispatcher.queues.iter_mut().flat_map(|queue| &mut queue.groups) {
            group.pace = Pace::new(self.now - SECOND);
            group.pace.finished(jobs, took, self.now);
        }
    }

    /// Ends the worker and returns how many completions its statistics have.
    async fn counted(self) -> u64 {
        let store = self.client.store().clone();
        self.dispatcher.end().await.unwrap();
        store.rollups(Time(0)).await.unwrap().iter().map(|rollup| rollup.completed).sum()
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// A call of the store in words; nothing for a run.
fn told(event: &Event) -> Option<String> {
    fn result<T>(what: String, result: &Result<T, StoreError>) -> Option<String> {
        Some(if result.is_ok() { what } else { format!("{what} failed") })
    }
    match event {
        Event::Ran { .. } | Event::Lost { .. } => None,
        Event::Claimed { result: Ok(claimed), .. } => Some(format!("claim {}", claimed.jobs.len())),
        Event::Claimed { result: Err(_), .. } => Some("claim failed".to_owned()),
        Event::Granted { result: answer, .. } => result("tokens".to_owned(), answer),
        Event::Settled { batch, result: answer } => result(format!("settle {}", batch.len()), answer),
        Event::LookedUp(found) => Some(format!("look up {}", found.len())),
        Event::Polled { asked, result: answer } => result(format!("poll {}", asked.len()), answer),
        Event::Measured { result: answer, .. } => result("measure".to_owned(), answer),
        Event::LimitsReported(answer) => result("limits".to_owned(), answer),
        Event::Ticked { result: answer, .. } => result("tick".to_owned(), answer),
        Event::Disowned(answer) => result("release_unknown".to_owned(), answer),
        Event::Reported => Some("reports".to_owned()),
    }
}

/// Those of the calls that begin with `what`.
fn only(asked: &[String], what: &str) -> Vec<String> {
    asked.iter().filter(|call| call.starts_with(what)).cloned().collect()
}

#[tokio::test]
async fn nothing_is_claimed_that_cannot_start() {
    let (mut bench, _) = Bench::with(3, 10, "Done").await;
    let seen = bench.until(|seen| seen.running == 3).await;
    assert_eq!((seen.leased, seen.pending), (3, 7));
    for seconds in [0, 1, 60] {
        bench.hint();
        bench.pass(SECOND * seconds);
        let asked = bench.round().await;
        assert!(only(&asked, "claim").is_empty(), "a claim without a slot after {seconds} s");
    }
    let seen = bench.seen().await;
    assert_eq!((seen.leased, seen.pending), (3, 7));
}

#[tokio::test]
async fn an_ended_run_makes_room_for_the_next() {
    let (mut bench, _) = Bench::with(2, 5, "Done").await;
    bench.until(|seen| seen.running == 2).await;
    for completed in 1..=5 {
        bench.gate.add_permits(1);
        let seen = bench.until(|seen| seen.completed == completed).await;
        let running = (5 - completed).min(2);
        assert_eq!((seen.running as u64, seen.leased), (running, running));
        assert_eq!(seen.started as u64, (2 + completed).min(5));
    }
}

#[tokio::test]
async fn short_jobs_are_leased_ahead_up_to_the_bound() {
    let (mut bench, _) = Bench::with(2, 50, "Done").await;
    bench.hurry();
    let seen = bench.until(|seen| seen.running == 2).await;
    assert_eq!(seen.leased, 9);
    bench.hurry();
    bench.hint();
    assert!(only(&bench.round().await, "claim").is_empty(), "the bound is reached");
}

/// As many end per second as in the test above, but each runs for long: nothing is leased before there is a slot, and
/// what was leased for the earlier pace goes back.
#[tokio::test]
async fn long_jobs_are_not_leased_ahead() {
    let (mut bench, _) = Bench::with(2, 50, "Done").await;
    bench.hurry();
    bench.until(|seen| seen.leased == 9).await;
    bench.pass(SECOND * 3);
    bench.set_pace(1_000, SECOND * 200);
    bench.dispatcher.woken(Hints { any: true, ..Hints::default() }, bench.now);
    bench.until(|seen| (seen.running, seen.leased) == (2, 2)).await;
    bench.gate.add_permits(2);
    bench.set_pace(1_000, SECOND * 200);
    let seen = bench.until(|seen| seen.completed == 2).await;
    assert_eq!((seen.started, seen.running, seen.leased), (4, 2, 2));
}

/// The claim looked before the job was there, and the hint came before the claim's answer.
#[tokio::test]
async fn a_hint_during_a_claim_leads_to_another() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.rest().await;
    bench.hint();
    bench.dispatcher.tick(bench.now);
    let empty = bench.event().await;
    assert_eq!(told(&empty).unwrap(), "claim 0");
    bench.put(1, "Done").await;
    bench.hint();
    bench.handle(empty);
    assert_eq!(only(&bench.round().await, "claim"), ["claim 1"], "the hint was lost with the empty answer");
    bench.until(|seen| seen.running == 1).await;
}

/// While short jobs run there is always another event.
#[tokio::test]
async fn a_hint_is_heard_between_events() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.rest().await;
    bench.dispatcher.wakes.listener()(Wake::Due(bench.queue()));
    bench.dispatcher.take_in(&mut vec![Event::Reported], bench.now);
    assert_eq!(bench.round().await, ["claim 0"]);
}

/// One ends while others are about to: they are settled together, but none waits for long.
#[tokio::test]
async fn short_jobs_are_settled_together() {
    let (mut bench, _) = Bench::with(2, 12, "Done").await;
    bench.hurry();
    bench.until(|seen| (seen.running, seen.leased) == (2, 9)).await;
    bench.one_ends().await;
    assert!(only(&bench.round().await, "settle").is_empty(), "more end soon");
    assert!(bench.dispatcher.next_timer(bench.now) <= bench.now + BATCH_DELAY, "no event is needed");
    bench.one_ends().await;
    bench.pass(BATCH_DELAY);
    assert_eq!(only(&bench.round().await, "settle"), ["settle 2"]);
}

/// The runs beside it began long ago and may take an hour.
#[tokio::test]
async fn a_job_with_none_behind_it_is_settled_at_once() {
    let (mut bench, _) = Bench::with(3, 3, "Done").await;
    bench.hurry();
    bench.until(|seen| seen.running == 3).await;
    bench.hurry();
    bench.one_ends().await;
    assert!(only(&bench.round().await, "settle").is_empty(), "the others have just begun");
    bench.pass(BATCH_DELAY);
    assert_eq!(only(&bench.round().await, "settle"), ["settle 1"]);
    bench.one_ends().await;
    assert_eq!(only(&bench.round().await, "settle"), ["settle 1"]);
}

/// When a delayed job is due only a poll can tell; about one that is due now the claim has told everything.
#[tokio::test]
async fn a_hint_of_due_work_asks_for_no_poll() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.rest().await;
    let queues = vec![bench.queue()];
    let due = Hints { due: queues.clone(), ..Hints::default() };
    for (hints, polls) in [(due, 0), (Hints { queues, ..Hints::default() }, 1)] {
        bench.dispatcher.woken(hints, bench.now);
        assert_eq!(only(&bench.round().await, "claim"), ["claim 0"]);
        bench.pass(SECOND);
        assert_eq!(only(&bench.round().await, "poll").len(), polls);
    }
}

/// Nothing is left to claim but what is enqueued now, and that brings a hint or is found a moment later.
#[tokio::test]
async fn a_claim_that_brought_all_there_was_is_not_followed_at_once() {
    let (mut bench, _) = Bench::with(4, 1, "Done").await;
    bench.until(|seen| seen.running == 1).await;
    assert_eq!(only(&bench.asked, "claim"), ["claim 1"], "three slots are open");
    bench.put(1, "Done").await;
    bench.dispatcher.woken(Hints { due: vec![bench.queue()], ..Hints::default() }, bench.now);
    assert_eq!(only(&bench.round().await, "claim"), ["claim 1"], "a hint came");
    bench.put(1, "Done").await;
    bench.rest().await;
    assert_eq!(bench.seen().await.running, 2, "no hint came");
    let before = bench.now;
    bench.until(|seen| seen.running == 3).await;
    assert!(bench.now <= before + SECOND, "a moment later");
}

#[tokio::test]
async fn a_stop_hands_back_what_has_not_ended_and_burns_nothing() {
    let (mut bench, ids) = Bench::with(2, 12, "Done").await;
    bench.hurry();
    bench.until(|seen| (seen.running, seen.leased) == (2, 9)).await;
    bench.dispatcher.begin_stop(bench.now);
    bench.rest().await;
    let seen = bench.seen().await;
    assert_eq!((seen.running, seen.leased, seen.pending), (2, 2, 10), "the unstarted go at once");
    assert!(!bench.dispatcher.is_over(bench.now), "two run on within the grace period");
    bench.pass(bench.dispatcher.options.grace);
    assert!(!bench.dispatcher.is_over(bench.now), "they are aborted, and their settlements under way");
    bench.rest().await;
    assert!(bench.dispatcher.is_over(bench.now));
    let store = bench.client.store().clone();
    bench.dispatcher.end().await.unwrap();
    for id in ids {
        let job = store.job(id).await.unwrap().unwrap().job;
        assert_eq!((job.state, job.attempt), (JobState::Pending, 0), "job {id}");
    }
    assert!(store.workers().await.unwrap().is_empty());
}

/// A job whose row was removed behind the store's back cannot be returned; its neighbours can.
#[tokio::test]
async fn a_refused_settlement_costs_its_neighbours_nothing() {
    let (mut bench, ids) = Bench::with(8, 8, "Again").await;
    bench.until(|seen| seen.running == 8).await;
    let file = rusqlite::Connection::open(bench.folder.path().join("windlass.db")).unwrap();
    file.busy_timeout(SOON).unwrap();
    assert_eq!(file.execute("delete from windlass_jobs where id = ?1", [ids[5].0]).unwrap(), 1);
    for _ in 0..8 {
        bench.one_ends().await;
    }
    bench.rest().await;
    assert_eq!(bench.count(JobState::Scheduled).await, 7);
    assert!(only(&bench.asked, "settle").contains(&"settle 1 failed".to_owned()), "{:?}", bench.asked);
    assert!(only(&bench.round().await, "settle").is_empty(), "not at once again");
    bench.pass(SECOND * 30);
    assert_eq!(only(&bench.round().await, "settle"), ["settle 1 failed"], "it is not forgotten");
}

/// Runs one job to the point where its settlement waits.
async fn one_ended(bench: &mut Bench) {
    bench.until(|seen| seen.running == 1).await;
    bench.one_ends().await;
}

#[tokio::test]
async fn a_lost_lease_counts_for_nothing() {
    let (mut bench, ids) = Bench::with(1, 1, "Done").await;
    one_ended(&mut bench).await;
    let store = bench.client.store().clone();
    let beat = store.look().await.unwrap().beats[0];
    assert_eq!(store.reclaim(&Death { beat, explained: false }).await.unwrap().unwrap().returned, 1);
    assert_eq!(only(&bench.round().await, "settle"), ["settle 1"]);
    assert!(only(&bench.asked, "look up").is_empty(), "nothing is in doubt");
    assert_eq!(store.job(ids[0]).await.unwrap().unwrap().job.state, JobState::Pending);
    assert_eq!(bench.counted().await, 0);
}

#[tokio::test]
async fn a_settlement_whose_answer_was_lost_counts_once() {
    let (mut bench, _) = Bench::with(1, 1, "Done").await;
    one_ended(&mut bench).await;
    bench.dispatcher.tick(bench.now);
    let batch = loop {
        match bench.event().await {
            Event::Settled { batch, result: Ok(_) } => break batch,
            other => bench.handle(other),
        }
    };
    let lost = StoreError::Unavailable { store: "sqlite", op: "settle", source: "cut off".into() };
    bench.handle(Event::Settled { batch, result: Err(lost) });
    assert!(only(&bench.round().await, "settle").is_empty(), "there is a pause first");
    bench.pass(SECOND);
    bench.rest().await;
    assert!(bench.asked.contains(&"look up 1".to_owned()), "{:?}", bench.asked);
    assert_eq!(bench.counted().await, 1);
}

/// Migrations go down and up under a worker: what ended meanwhile is offered again soon, not put aside as refused.
#[tokio::test]
async fn a_settlement_that_meets_half_a_schema_is_tried_again_soon() {
    let (mut bench, ids) = Bench::with(1, 1, "Done").await;
    one_ended(&mut bench).await;
    let store = bench.client.store().clone();
    bench.sql("alter table windlass_finished rename to moved");
    assert_eq!(only(&bench.round().await, "settle"), ["settle 1 failed"]);
    bench.sql("alter table moved rename to windlass_finished");
    bench.pass(SECOND);
    assert_eq!(only(&bench.round().await, "settle"), ["settle 1"]);
    assert_eq!(store.job(ids[0]).await.unwrap().unwrap().job.state, JobState::Completed);
}

/// A cancel tells nothing about work: it must not make the worker claim.
#[tokio::test]
async fn a_cancel_is_looked_for_without_a_claim() {
    let (mut bench, ids) = Bench::with(2, 1, "Done").await;
    bench.until(|seen| seen.running == 1).await;
    bench.pass(SECOND);
    assert_eq!(only(&bench.round().await, "claim"), ["claim 0"]);
    // No hint tells of this one, so only a claim would find it.
    bench.put(1, "Done").await;
    let filter = JobFilter { ids, ..JobFilter::default() };
    bench.client.store().act(&filter, Action::Cancel, 1, None).await.unwrap();
    bench.dispatcher.woken(Hints { cancel: true, ..Hints::default() }, bench.now);
    bench.asked.clear();
    bench.rest().await;
    assert_eq!(bench.asked, ["poll 0", "settle 1"]);
    let seen = bench.seen().await;
    assert_eq!((seen.running, seen.cancelled, seen.pending), (0, 1, 1));
}

fn schedule(expr: &str) -> ScheduleSpec {
    ScheduleSpec {
        name: "s".to_owned(),
        kind: "SAY".to_owned(),
        payload: b"\"Done\"".to_vec(),
        rules: vec![RuleSpec { expr: expr.to_owned(), ..RuleSpec::default() }],
        ..ScheduleSpec::default()
    }
}

/// A worker that has seen a schedule whose next tick is in an hour.
async fn hourly() -> Bench {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.client.put_schedule(&schedule("every 1h"), None).await.unwrap();
    bench.rest().await;
    bench
}

#[tokio::test]
async fn the_ticker_goes_when_the_next_schedule_is_due_and_not_before() {
    let mut bench = hourly().await;
    for ticks in 1..=2 {
        bench.pass(HOUR - SECOND * 10);
        assert!(only(&bench.round().await, "tick").is_empty(), "too early");
        bench.pass(SECOND * 11);
        assert_eq!(only(&bench.round().await, "tick"), ["tick"]);
        let jobs = bench.client.store().count(&JobFilter::default()).await.unwrap();
        assert_eq!(jobs, ticks, "one job per tick");
    }
}

#[tokio::test]
async fn a_worker_that_stops_ticks_no_more() {
    let mut bench = hourly().await;
    bench.dispatcher.begin_stop(bench.now);
    bench.pass(HOUR + SECOND);
    assert!(only(&bench.round().await, "tick").is_empty());
}

/// A store that does not answer is asked again after a pause, not at once.
#[tokio::test]
async fn a_failed_tick_is_followed_by_a_pause() {
    let mut bench = hourly().await;
    bench.sql("alter table windlass_schedules rename to moved");
    bench.pass(HOUR + SECOND);
    assert_eq!(only(&bench.round().await, "tick"), ["tick failed"]);
    assert!(bench.round().await.is_empty(), "a pause");
    bench.pass(HOUR);
    let asked = bench.round().await;
    assert_eq!((only(&asked, "poll").len(), only(&asked, "tick").len()), (1, 0), "the next poll tells");
}
