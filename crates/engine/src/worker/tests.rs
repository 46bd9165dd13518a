//! The dispatcher, step by step: each test ticks it at instants of its own and hands it its events one by one, against
//! a real SQLite store. Jobs run until the test lets them go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use windlass_core::schedule::{RuleSpec, ScheduleSpec};
use windlass_core::store::{Action, JobFilter, Wake};
use windlass_core::{JobId, JobState, KindSpec, QueueSpec, Store, StoreError};
use windlass_store_sqlite::SqliteStore;

mod limits;

use super::dispatch::{Dispatcher, Ended, Event, Phase};
use super::pace::Pace;
use super::settles::COMPANY;
use super::wake::Hints;
use super::{Roster, WorkerOptions};
use crate::{Client, Completion, Handlers, JobError, JobRequest, handler};

const SOON: Duration = Duration::from_secs(20);
const NEVER: Duration = Duration::from_secs(3_600);

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
    folder: TempDir,
}

impl Bench {
    async fn new(options: WorkerOptions) -> Bench {
        let queue = QueueSpec { cadence: NEVER, ..QueueSpec::named("MAIN") };
        Bench::of(options, queue, &[KindSpec::new("SAY", "MAIN")]).await
    }

    /// Every kind does what its payload says once the gate lets it.
    async fn of(options: WorkerOptions, queue: QueueSpec, kinds: &[KindSpec]) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("windlass.db"), Default::default()).unwrap();
        store.migrate_up(None).await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let mut handlers = Handlers::default();
        for kind in kinds {
            let waits = gate.clone();
            let run = move |_, say: Say| {
                let waits = waits.clone();
                async move {
                    waits.acquire().await?.forget();
                    match say {
                        Say::Done => Ok(Completion::done()),
                        Say::Again => Err(JobError::retry_after(NEVER, "as asked")),
                    }
                }
            };
            handlers.add(kind.clone(), handler(run));
        }
        let client = Client::open(Arc::new(store), &[queue], &handlers.specs()).await.unwrap();
        let options = WorkerOptions { poll: NEVER, ..options };
        let roster = Roster::new(&client, &handlers, &[]).unwrap();
        let worker = client.store().register_worker(&roster.info(&options)).await.unwrap();
        // The sender is gone, which no step looks at: stopping is a step of its own.
        let dispatcher = Dispatcher::new(client.clone(), roster, options, worker, watch::channel(false).1);
        Bench { dispatcher, client, gate, folder }
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

    /// The next thing that happened, not handled yet.
    async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(SOON, self.dispatcher.inbox.recv()).await;
        event.expect("something happens").expect("the dispatcher holds a sender")
    }

    /// Handles that, and nothing else yet.
    async fn one_ends(&mut self) {
        self.gate.add_permits(1);
        let ran = self.event().await;
        self.dispatcher.handle(ran).await.unwrap();
    }

    /// Ticks and handles events, as the loop does, until `is_so`. Deaf to the store's hints: those are the test's to give.
    async fn until(&mut self, is_so: impl Fn(&Dispatcher) -> bool) {
        self.steps(is_so, false).await;
    }

    /// The same with the store's hints, as the loop hears them.
    async fn until_woken(&mut self, is_so: impl Fn(&Dispatcher) -> bool) {
        self.steps(is_so, true).await;
    }

    async fn steps(&mut self, is_so: impl Fn(&Dispatcher) -> bool, hears: bool) {
        let deadline = Instant::now() + SOON;
        loop {
            self.dispatcher.tick(Instant::now());
            if is_so(&self.dispatcher) {
                return;
            }
            assert!(Instant::now() < deadline, "it does not come to be so");
            let timer = self.dispatcher.next_timer().min(deadline);
            let wakes = self.dispatcher.wakes.clone();
            tokio::select! {
                biased;
                event = self.dispatcher.inbox.recv() => {
                    let event = event.expect("the dispatcher holds a sender");
                    self.dispatcher.handle(event).await.unwrap();
                }
                hints = wakes.woken(), if hears => self.dispatcher.woken(hints),
                () = tokio::time::sleep_until(timer.into()) => {}
            }
        }
    }

    fn held(&self) -> (u32, usize) {
        held(&self.dispatcher)
    }

    async fn count(&self, state: JobState) -> u64 {
        let filter = JobFilter { states: vec![state], ..JobFilter::default() };
        self.client.store().count(&filter).await.unwrap()
    }

    /// As if runs had been ending at a great rate; seven jobs may be leased ahead.
    fn hurry(&mut self) {
        self.dispatcher.options.prefetch = 7;
        let now = Instant::now();
        for group in &mut self.dispatcher.queues[0].groups {
            group.pace = Pace::new(now - Duration::from_secs(1));
            group.pace.finished(1_000_000, Duration::ZERO, now);
        }
    }
}

/// Runs and leased jobs that wait for theirs, of the first queue.
fn held(dispatcher: &Dispatcher) -> (u32, usize) {
    let queue = &dispatcher.queues[0];
    (queue.running(), queue.groups.iter().map(|group| group.buffer.len()).sum())
}

fn claiming(dispatcher: &Dispatcher) -> bool {
    dispatcher.queues[0].groups.iter().any(|group| group.claiming)
}

fn quiet(dispatcher: &Dispatcher) -> bool {
    let told = !dispatcher.untold && !dispatcher.telling;
    told && !claiming(dispatcher) && !dispatcher.settling && !dispatcher.polling
}

#[tokio::test]
async fn nothing_is_claimed_that_cannot_start() {
    let (mut bench, _) = Bench::with(3, 10, "Done").await;
    bench.until(|d| d.queues[0].running() == 3 && quiet(d)).await;
    assert_eq!(bench.held(), (3, 0));
    for seconds in [0, 1, 60] {
        bench.dispatcher.woken(Hints { queues: vec![bench.dispatcher.queues[0].id], ..Hints::default() });
        bench.dispatcher.tick(Instant::now() + Duration::from_secs(seconds));
        assert!(!claiming(&bench.dispatcher), "a claim without a permit after {seconds} s");
    }
    assert_eq!((bench.count(JobState::Running).await, bench.count(JobState::Pending).await), (3, 7));
}

#[tokio::test]
async fn an_ended_run_makes_room_for_the_next() {
    let (mut bench, _) = Bench::with(2, 5, "Done").await;
    bench.until(|d| d.queues[0].running() == 2).await;
    for completed in 1..=5 {
        bench.gate.add_permits(1);
        let expected = (5 - completed).min(2);
        // A run more than before has ended, and its permit is taken again as long as jobs are left.
        bench
            .until(|d| {
                d.next_run == (2 + completed).min(5) && d.queues[0].running() as u64 == expected && quiet(d)
            })
            .await;
        assert_eq!(bench.count(JobState::Completed).await, completed);
        assert_eq!(bench.count(JobState::Running).await, expected);
    }
}

#[tokio::test]
async fn short_jobs_are_leased_ahead_up_to_the_bound() {
    let (mut bench, _) = Bench::with(2, 50, "Done").await;
    bench.hurry();
    bench.until(|d| d.queues[0].running() == 2 && quiet(d)).await;
    assert_eq!(bench.held(), (2, 7));
    bench.hurry();
    bench.dispatcher.tick(Instant::now());
    assert!(!claiming(&bench.dispatcher), "the bound is reached");
    assert_eq!(bench.count(JobState::Running).await, 9);
}

/// As many end in a second as in the test above, but each runs for long: nothing is leased before there is a slot, and what
/// was leased for a pace that is no more goes back.
#[tokio::test]
async fn long_jobs_are_not_leased_ahead() {
    let (mut bench, _) = Bench::with(2, 50, "Done").await;
    bench.hurry();
    bench.until(|d| held(d) == (2, 7) && quiet(d)).await;
    let slow = |bench: &mut Bench, now: Instant| {
        let pace = &mut bench.dispatcher.queues[0].groups[0].pace;
        *pace = Pace::new(now - Duration::from_secs(1));
        pace.finished(1_000, Duration::from_secs(200), now);
    };
    slow(&mut bench, Instant::now());
    bench.dispatcher.return_surplus(Instant::now() + Duration::from_secs(3));
    bench.until(|d| d.unsettled.is_empty() && quiet(d)).await;
    assert_eq!((bench.held(), bench.count(JobState::Running).await), ((2, 0), 2));
    bench.gate.add_permits(2);
    slow(&mut bench, Instant::now());
    bench.until(|d| d.next_run == 4 && d.unsettled.is_empty() && quiet(d)).await;
    assert_eq!((bench.held(), bench.count(JobState::Running).await), ((2, 0), 2));
}

/// The claim looked before the job was there, and the hint came before the claim's answer.
#[tokio::test]
async fn a_hint_during_a_claim_leads_to_another() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.until(|d| d.clock.is_some() && quiet(d)).await;
    let queue = bench.dispatcher.queues[0].id;
    let hint = || Hints { queues: vec![queue], ..Hints::default() };
    bench.dispatcher.woken(hint());
    bench.dispatcher.tick(Instant::now());
    assert!(claiming(&bench.dispatcher));
    let empty = bench.event().await;
    assert!(matches!(&empty, Event::Claimed { result: Ok(caught), .. } if caught.jobs.is_empty()));
    bench.put(1, "Done").await;
    bench.dispatcher.woken(hint());
    bench.dispatcher.handle(empty).await.unwrap();
    bench.dispatcher.tick(Instant::now());
    assert!(claiming(&bench.dispatcher), "the hint was lost with the empty answer");
    bench.until(|d| d.queues[0].running() == 1).await;
}

/// While short jobs run there is always another event.
#[tokio::test]
async fn a_hint_is_heard_between_events() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.until(|d| d.clock.is_some() && quiet(d)).await;
    let queue = bench.dispatcher.queues[0].id;
    bench.dispatcher.wakes.listener()(Wake::Due(queue));
    bench.dispatcher.take_in(&mut vec![Event::Reported]).await.unwrap();
    bench.dispatcher.tick(Instant::now());
    assert!(claiming(&bench.dispatcher));
}

/// One ends while others are about to: they are settled together, but none waits for long.
#[tokio::test]
async fn short_jobs_are_settled_in_company() {
    let (mut bench, _) = Bench::with(2, 12, "Done").await;
    bench.hurry();
    bench.until(|d| held(d) == (2, 7) && quiet(d)).await;
    bench.one_ends().await;
    let now = Instant::now();
    bench.dispatcher.tick(now);
    assert_eq!((bench.dispatcher.unsettled.len(), bench.dispatcher.settling), (1, false));
    assert!(bench.dispatcher.next_timer() <= Instant::now() + COMPANY, "nothing else need happen");
    bench.dispatcher.tick(now + COMPANY);
    assert!(bench.dispatcher.settling);
}

/// What runs beside it began long ago and may run for an hour.
#[tokio::test]
async fn who_has_nobody_behind_him_is_settled_at_once() {
    let (mut bench, _) = Bench::with(2, 2, "Done").await;
    bench.hurry();
    bench.until(|d| held(d) == (2, 0) && quiet(d)).await;
    bench.one_ends().await;
    let last = bench.dispatcher.runs.values().map(|run| run.started).max().unwrap();
    bench.dispatcher.flush_settles(last);
    assert!(!bench.dispatcher.settling, "it has just begun");
    bench.dispatcher.gathering = None;
    bench.dispatcher.flush_settles(last + COMPANY);
    assert!(bench.dispatcher.settling);
}

/// What a job of later time waits for only a poll can tell; about one that is due now the claim has said everything.
#[tokio::test]
async fn a_hint_of_due_work_asks_for_no_poll() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.until(|d| d.clock.is_some() && quiet(d)).await;
    let queues = vec![bench.dispatcher.queues[0].id];
    let due = Hints { due: queues.clone(), ..Hints::default() };
    for (hints, polls) in [(due, false), (Hints { queues, ..Hints::default() }, true)] {
        bench.dispatcher.woken(hints);
        bench.dispatcher.tick(Instant::now());
        assert!(claiming(&bench.dispatcher));
        let empty = bench.event().await;
        bench.dispatcher.handle(empty).await.unwrap();
        assert_eq!(bench.dispatcher.poll_at < Instant::now() + NEVER / 2, polls);
    }
}

/// Nothing is left to claim but what comes now, and that is hinted at, or found a moment later.
#[tokio::test]
async fn a_claim_that_brought_all_there_was_is_not_followed_at_once() {
    let (mut bench, _) = Bench::with(4, 1, "Done").await;
    bench.until(|d| d.queues[0].running() == 1).await;
    assert!(!claiming(&bench.dispatcher), "three slots are open");
    let due = Hints { due: vec![bench.dispatcher.queues[0].id], ..Hints::default() };
    bench.put(1, "Done").await;
    bench.dispatcher.woken(due);
    bench.dispatcher.tick(Instant::now());
    assert!(claiming(&bench.dispatcher), "a hint came");
    bench.until(|d| d.queues[0].running() == 2).await;
    bench.put(1, "Done").await;
    bench.until(|d| d.queues[0].running() == 3).await;
}

#[tokio::test]
async fn a_stop_hands_back_what_has_not_ended_and_burns_nothing() {
    let (mut bench, ids) = Bench::with(2, 12, "Done").await;
    bench.hurry();
    bench.until(|d| held(d) == (2, 7) && quiet(d)).await;
    bench.dispatcher.options.grace = NEVER;
    let now = Instant::now();
    bench.dispatcher.begin_stop(now);
    assert_eq!((bench.held(), bench.dispatcher.unsettled.len()), ((2, 0), 7), "the unstarted go at once");
    bench.until(|d| d.unsettled.is_empty() && quiet(d)).await;
    assert_eq!((bench.count(JobState::Running).await, bench.count(JobState::Pending).await), (2, 10));
    assert!(!bench.dispatcher.is_over(now), "two run on within the grace period");
    bench.dispatcher.phase = Phase::Stopping { deadline: now };
    assert!(!bench.dispatcher.is_over(now), "they are aborted, and their settlements under way");
    bench.until(|d| d.unsettled.is_empty() && quiet(d)).await;
    assert!(bench.dispatcher.is_over(now));
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
async fn a_refused_settlement_stands_alone_in_the_end() {
    let (mut bench, ids) = Bench::with(8, 8, "Again").await;
    bench.until(|d| d.queues[0].running() == 8).await;
    let file = rusqlite::Connection::open(bench.folder.path().join("windlass.db")).unwrap();
    file.busy_timeout(SOON).unwrap();
    assert_eq!(file.execute("delete from windlass_jobs where id = ?1", [ids[5].0]).unwrap(), 1);
    bench.gate.add_permits(8);
    while bench.dispatcher.unsettled.len() < 8 {
        let event = bench.event().await;
        bench.dispatcher.handle(event).await.unwrap();
    }
    bench.until(|d| d.unsettled.is_empty() && !d.settling).await;
    let refused: Vec<JobId> = bench.dispatcher.refused.iter().map(|ended| ended.settlement.id).collect();
    assert_eq!(refused, [ids[5]]);
    assert_eq!(bench.count(JobState::Scheduled).await, 7);
    // It is not forgotten: offered again later, on its own.
    bench.dispatcher.tick(Instant::now() + NEVER);
    assert!(bench.dispatcher.settling && bench.dispatcher.refused.is_empty());
}

/// Runs one job to the point where its settlement waits.
async fn one_ended(bench: &mut Bench) {
    bench.until(|d| d.queues[0].running() == 1 && quiet(d)).await;
    bench.gate.add_permits(1);
    let event = bench.event().await;
    bench.dispatcher.handle(event).await.unwrap();
    assert_eq!(bench.dispatcher.unsettled.len(), 1);
}

#[tokio::test]
async fn a_lost_lease_counts_for_nothing() {
    let (mut bench, ids) = Bench::with(1, 1, "Done").await;
    one_ended(&mut bench).await;
    let store = bench.client.store().clone();
    let beat = store.beats().await.unwrap()[0];
    assert_eq!(store.reclaim(&beat).await.unwrap().unwrap().suspects, 1);
    bench.until(|d| d.unsettled.is_empty() && !d.settling).await;
    assert_eq!(store.job(ids[0]).await.unwrap().unwrap().job.state, JobState::Pending);
    assert!(bench.dispatcher.tally.take().is_empty());
    assert_eq!(bench.dispatcher.looking_up, 0, "nothing to wonder about");
}

#[tokio::test]
async fn a_settlement_whose_answer_was_lost_counts_once() {
    let (mut bench, _) = Bench::with(1, 1, "Done").await;
    one_ended(&mut bench).await;
    let batch: Vec<Ended> = bench.dispatcher.unsettled.drain(..).collect();
    bench.client.store().settle(&[batch[0].settlement.clone()]).await.unwrap();
    let lost = StoreError::Unavailable { store: "sqlite", op: "settle", source: "cut off".into() };
    bench.dispatcher.settled(batch, Err(lost));
    bench.dispatcher.trouble = None;
    bench.until(|d| d.unsettled.is_empty() && !d.settling && d.looking_up == 0).await;
    let counted: Vec<u64> = bench.dispatcher.tally.take().iter().map(|rollup| rollup.completed).collect();
    assert_eq!(counted, [1]);
}

/// Migrations go down and up under a worker: what ended meanwhile is offered again soon, not put aside as refused.
#[tokio::test]
async fn a_settlement_that_meets_half_a_schema_is_trouble() {
    let (mut bench, ids) = Bench::with(1, 1, "Done").await;
    one_ended(&mut bench).await;
    let store = bench.client.store().clone();
    let migrations = store.migrations().await.unwrap();
    let lanes = migrations.iter().find(|migration| migration.name == "lanes").unwrap().version;
    store.migrate_down(lanes - 1).await.unwrap();
    bench.until(|d| d.trouble.is_some()).await;
    assert_eq!((bench.dispatcher.unsettled.len(), bench.dispatcher.refused.len()), (1, 0));
    store.migrate_up(None).await.unwrap();
    bench.until(|d| d.unsettled.is_empty() && !d.settling).await;
    assert_eq!(store.job(ids[0]).await.unwrap().unwrap().job.state, JobState::Completed);
}

/// A cancel says nothing about work: it must not send the worker to the queues.
#[tokio::test]
async fn a_cancel_is_looked_for_without_a_claim() {
    let (mut bench, ids) = Bench::with(2, 1, "Done").await;
    bench.until(|d| d.queues[0].running() == 1 && quiet(d) && !d.queues[0].groups[0].due).await;
    // Nobody tells the dispatcher of this one, so only a look at the queues would find it.
    bench.put(1, "Done").await;
    let filter = JobFilter { ids, ..JobFilter::default() };
    bench.client.store().act(&filter, Action::Cancel, 1, None).await.unwrap();
    bench.dispatcher.woken(Hints { cancel: true, ..Hints::default() });
    bench.until(|d| d.queues[0].running() == 0 && d.unsettled.is_empty() && quiet(d)).await;
    assert_eq!((bench.count(JobState::Cancelled).await, bench.count(JobState::Pending).await), (1, 1));
    assert!(!bench.dispatcher.queues[0].groups[0].due);
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

#[tokio::test]
async fn the_ticker_goes_when_the_next_schedule_is_due_and_not_before() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.client.put_schedule(&schedule("every 1h"), None).await.unwrap();
    bench.until(|d| d.next_tick.is_some() && quiet(d)).await;
    let due = bench.dispatcher.tick_at().unwrap();
    assert!(due > Instant::now() + Duration::from_secs(3_590), "an hour from now");
    bench.dispatcher.tick(due - Duration::from_secs(1));
    assert!(bench.dispatcher.ticker.is_some(), "too early");
    bench.dispatcher.tick(due);
    assert!(bench.dispatcher.ticker.is_none(), "it is under way");
    assert_eq!(bench.dispatcher.tick_at(), None, "one at a time");
    let next = bench.dispatcher.next_tick;
    bench.until(|d| d.ticker.is_some()).await;
    assert_eq!(bench.count(JobState::Pending).await, 1);
    assert!(bench.dispatcher.next_tick > next, "and the next one is known without asking");
    assert!(bench.dispatcher.tick_at().unwrap() > due + Duration::from_secs(3_590));
}

#[tokio::test]
async fn a_worker_that_stops_ticks_no_more() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.client.put_schedule(&schedule("every 1h"), None).await.unwrap();
    bench.until(|d| d.next_tick.is_some()).await;
    let due = bench.dispatcher.tick_at().unwrap();
    bench.dispatcher.begin_stop(Instant::now());
    assert_eq!(bench.dispatcher.tick_at(), None);
    bench.dispatcher.tick(due);
    assert!(bench.dispatcher.ticker.is_some());
}

/// A store that does not answer is asked again after a while, not at once.
#[tokio::test]
async fn a_failed_tick_is_trouble() {
    let (mut bench, _) = Bench::with(2, 0, "Done").await;
    bench.client.put_schedule(&schedule("every 1h"), None).await.unwrap();
    bench.until(|d| d.next_tick.is_some() && quiet(d)).await;
    let due = bench.dispatcher.tick_at().unwrap();
    let migrations = bench.client.store().migrations().await.unwrap();
    let ours = migrations.iter().find(|migration| migration.name == "schedules").unwrap().version;
    bench.client.store().migrate_down(ours - 1).await.unwrap();
    bench.dispatcher.tick(due);
    let failed = bench.event().await;
    assert!(matches!(&failed, Event::Ticked { result: Err(StoreError::SchemaMissing), .. }));
    bench.dispatcher.handle(failed).await.unwrap();
    assert!(bench.dispatcher.trouble.is_some() && bench.dispatcher.ticker.is_some());
    assert_eq!(bench.dispatcher.tick_at(), None, "the next poll tells");
}
