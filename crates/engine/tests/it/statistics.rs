//! Roll-ups compared with the tables they count.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use windlass_core::store::{Claim, JobFilter, LATENCY_BUCKETS, Page, Rollup, StoreTx, WorkerInfo};
use windlass_core::sweep::{Beat, DEADLY_LEVEL, Level};
use windlass_core::{Backoff, JobState, KindSpec, Store, Time};
use windlass_engine::worker::Drained;
use windlass_engine::{
    Client, Completion, Handlers, JobError, JobRequest, Sweeper, Worker, WorkerOptions, handler,
};
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::place::Place;

const SOON: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
enum Do {
    Complete,
    Fail,
    FailTwice,
    AlwaysFail,
    SnoozeOnce,
    /// Settles itself, then returns success or failure.
    SettleIn {
        commit: bool,
        then_fail: bool,
    },
}

async fn act(
    context: windlass_engine::Context,
    order: Do,
    store: Arc<dyn Store>,
) -> Result<Completion, JobError> {
    match order {
        Do::Complete => {}
        Do::Fail => return Err(JobError::fail("never again")),
        Do::FailTwice if context.attempt() > 2 => {}
        Do::FailTwice | Do::AlwaysFail => return Err(JobError::retry("again")),
        // A snooze uses no attempt, so it is recognized by the number of runs.
        Do::SnoozeOnce
            if context.client().store().job(context.job_id()).await?.unwrap().attempts.len() > 1 => {}
        Do::SnoozeOnce => return Err(JobError::snooze(Duration::from_millis(1))),
        Do::SettleIn { commit, then_fail } => {
            let mut tx: Box<dyn StoreTx> = store.begin().await?;
            assert!(context.settle_in(tx.tx()).await?);
            if commit {
                tx.commit().await?
            } else {
                tx.rollback().await?
            }
            if then_fail {
                return Err(JobError::retry("after all"));
            }
        }
    }
    Ok(Completion::done())
}

fn handlers(store: &Arc<dyn Store>) -> Handlers {
    let store = store.clone();
    let mut handlers = Handlers::default();
    let backoff = Backoff { base: Duration::from_millis(1), ..Backoff::default() };
    let spec = KindSpec { max_attempts: 3, backoff, ..KindSpec::new("DO", "MAIN") };
    handlers.add(spec, handler(move |context, order: Do| act(context, order, store.clone())));
    handlers
}

/// The counts of a roll-up, taken from the tables.
async fn counted(store: &dyn Store) -> (u64, u64, u64) {
    let jobs =
        store.list(&JobFilter::default(), &Page { before: None, limit: 1_000, excerpt: None }).await.unwrap();
    let of = |state: JobState| jobs.iter().filter(|job| job.state == state).count() as u64;
    let mut retried = 0;
    for job in &jobs {
        let detail = store.job(job.id).await.unwrap().unwrap();
        retried += detail.attempts.iter().filter(|attempt| attempt.outcome == "retry").count() as u64;
    }
    (of(JobState::Completed), retried, of(JobState::Failed) + of(JobState::DeadLetter))
}

async fn rolled_up(store: &dyn Store) -> (u64, u64, u64) {
    let rollups: Vec<Rollup> = store.rollups(Time(0)).await.unwrap();
    let sum = |of: fn(&Rollup) -> u64| rollups.iter().map(of).sum::<u64>();
    let (completed, dead) = (sum(|r| r.completed), sum(|r| r.dead));
    let latencies: u64 = rollups.iter().flat_map(|r| &r.latency).map(|n| u64::from(*n)).sum();
    assert_eq!(latencies, completed + dead, "one latency per finished job");
    assert!(rollups.iter().all(|r| r.latency.len() == LATENCY_BUCKETS));
    (completed, sum(|r| r.retried), dead)
}

const ORDERS: [&str; 9] = [
    "\"Complete\"",
    "\"Complete\"",
    "\"Fail\"",
    "\"FailTwice\"",
    "\"AlwaysFail\"",
    "\"SnoozeOnce\"",
    "{\"SettleIn\":{\"commit\":true,\"then_fail\":false}}",
    "{\"SettleIn\":{\"commit\":true,\"then_fail\":true}}",
    "{\"SettleIn\":{\"commit\":false,\"then_fail\":false}}",
];

async fn enqueue(client: &Client) {
    let orders = ORDERS.iter().map(|order| JobRequest::new("DO", order.as_bytes().to_vec()));
    client.enqueue_many(orders.collect()).await.unwrap();
}

async fn all_finished(store: &dyn Store) {
    let live = vec![JobState::Scheduled, JobState::Pending, JobState::Running];
    let live = JobFilter { states: live, ..JobFilter::default() };
    wait_until("every job to finish", SOON, || async {
        Seen::when(store.count(&live).await.unwrap(), |left| *left == 0)
    })
    .await;
}

on_both! {
    async fn a_worker_counts_what_was_written(place: Place) {
        let handlers = handlers(&place.store);
        let client = place.client(&["MAIN"], &handlers).await;
        let worker = Worker::start(client.clone(), &handlers, WorkerOptions::default()).await.unwrap();
        enqueue(&client).await;
        all_finished(&*place.store).await;
        worker.shutdown().await.unwrap();
        assert_eq!(counted(&*place.store).await, (7, 4, 2), "the orders");
        assert_eq!(rolled_up(&*place.store).await, counted(&*place.store).await);
    }

    async fn a_drain_counts_what_was_written(place: Place) {
        let handlers = handlers(&place.store);
        let client = place.client(&["MAIN"], &handlers).await;
        enqueue(&client).await;
        let drained = Mutex::new(Drained::default());
        wait_until("the retries", SOON, || async {
            let more = client.drain(&handlers).await.unwrap();
            let mut drained = drained.lock().unwrap();
            drained.completed += more.completed;
            drained.returned += more.returned;
            drained.ended += more.ended;
            Seen::when(drained.completed + drained.ended, |over| *over == ORDERS.len() as u64)
        })
        .await;
        let drained = drained.into_inner().unwrap();
        assert_eq!((drained.completed, drained.returned, drained.ended), (7, 5, 2), "a snooze returns, too");
        assert_eq!(rolled_up(&*place.store).await, counted(&*place.store).await);
    }

    /// The worker that ran them is gone.
    async fn the_sweeper_counts_the_dead_letters_it_makes(place: Place) {
        let handlers = handlers(&place.store);
        let client = place.client(&["MAIN"], &handlers).await;
        let catalog = client.catalog();
        let (queue, kind) = (catalog.queue_named("MAIN").unwrap().id, catalog.kind_named("DO").unwrap().id);
        client.enqueue(JobRequest::new("DO", b"\"Complete\"".to_vec())).await.unwrap();
        let lease = Duration::from_secs(60);
        let mut sweeper = Sweeper::new(place.store.clone(), lease);
        for death in 0..DEADLY_LEVEL {
            let at = i64::from(death) * 1_400_000_000;
            place.store.set_clock_offset(at);
            let level = match death {
                0 | 1 => Level::Ordinary,
                2 => Level::Second,
                _ => Level::Trial,
            };
            let info = WorkerInfo { label: "gone:1".to_owned(), queues: vec![queue], lease };
            let worker = place.store.register_worker(&info).await.unwrap();
            let claim = Claim { worker, queue, kinds: vec![kind], limit: 1, level };
            assert_eq!(place.store.claim(&claim).await.unwrap().len(), 1, "death {death}");
            sweeper.tick(Instant::now()).await.unwrap();
            place.store.set_clock_offset(at + 700_000_000);
            let beats: Vec<Beat> = place.store.look().await.unwrap().beats;
            assert!(beats.iter().all(|beat| beat.expired));
            sweeper.tick(Instant::now() + lease).await.unwrap();
        }
        assert_eq!(counted(&*place.store).await, (0, 0, 1));
        assert_eq!(rolled_up(&*place.store).await, (0, 0, 1));
        let rollup = &place.store.rollups(Time(0)).await.unwrap()[0];
        assert_eq!((rollup.queue, rollup.kind), (queue, kind));
    }
}
