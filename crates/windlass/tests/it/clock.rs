//! The clock jumps by an hour while processes produce, work and sweep. No live worker loses its jobs, and delays follow
//! the current clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use windlass::{JobId, JobState, Request, Windlass};
use windlass_core::WorkerId;
use windlass_testkit::process::Process;
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::{Append, Hold};
use crate::world::{World, state_of, wait_all_finished};
use crate::{count, on_both};

/// Long enough that a process on a busy machine does not look dead.
const LEASE: Duration = Duration::from_millis(800);
const DEADLINE: Duration = Duration::from_secs(30);
const HOUR_MICROS: i64 = 3_600_000_000;
/// Heartbeats to wait for: those of two leases, during which each sweeper runs about eight times.
const BEATS: i64 = 8;
const NAMES: [&str; 2] = ["left", "right"];
/// More than the ten slots of one process and fewer than those of two: both hold jobs, and one has a free slot.
const HELD: usize = 14;

on_both! {
    async fn a_stepped_clock_expires_nothing(world: World) {
        let windlass = world.windlass().await;
        for round in 0..count(1, 10) {
            for step in [HOUR_MICROS, -HOUR_MICROS] {
                // New processes each time: they do not prefetch yet.
                let workers = NAMES.map(|name| world.worker(name, LEASE));
                let go = world.directory().join(format!("go-{round}-{step}"));
                let held = (0..HELD).map(|_| Request::from(Hold { file: go.clone(), in_tx: false }));
                let mut ids: Vec<JobId> = windlass.enqueue_many(held).await.unwrap().iter().map(|e| e.id).collect();
                let before = wait_for_both_at_work(&windlass).await;
                ids.extend(step_there_and_back(&world, &windlass, &workers, step).await);
                let after = incarnations(&windlass).await;
                assert!(before.keys().eq(after.keys()), "a living worker was declared dead: {before:?} {after:?}");
                std::fs::write(&go, []).unwrap();
                wait_all_finished(&windlass, DEADLINE).await;
                check_one_run_each(&windlass, &ids).await;
            }
        }
        world.end().await;
    }
}

/// Steps the clock of one process, then of the producer, then of the other process, and back. In between, one worker's
/// lease has expired by the other's clock, and only its heartbeats show that it is alive. Returns the jobs enqueued
/// meanwhile.
async fn step_there_and_back(
    world: &World,
    windlass: &Windlass,
    workers: &[Process; 2],
    step: i64,
) -> Vec<JobId> {
    let load = Load::start(windlass);
    let delayed = if step > 0 { Some(enqueue_for_half_an_hour(windlass).await) } else { None };
    step_everybody(world, windlass, workers, step, step.max(0)).await;
    let later = match delayed {
        Some(id) => id,
        None => enqueue_for_half_an_hour(windlass).await,
    };
    let soon = Request::from(Append { ms: 0 }).delay(Duration::from_millis(500));
    let soon = windlass.enqueue(soon).await.unwrap().id;
    wait_for_completion(windlass, soon).await;
    let mut ids = load.end().await;
    ids.extend([soon, later]);
    if step > 0 {
        // All are due by this clock; by the original clock only in an hour.
        for id in &ids {
            wait_for_completion(windlass, *id).await;
        }
    }
    step_everybody(world, windlass, workers, 0, step.max(0)).await;
    ids
}

async fn step_everybody(world: &World, windlass: &Windlass, workers: &[Process; 2], to: i64, later: i64) {
    let store = windlass.client().store();
    world.step_clock(NAMES[0], &workers[0], to).await;
    wait_for_beats(windlass).await;
    store.set_clock_offset(later);
    let beats = store.look().await.unwrap().beats;
    let expired = beats.iter().filter(|beat| beat.expired).count();
    assert_eq!(expired, 1, "without an expired lease the test proves nothing: {beats:?}");
    store.set_clock_offset(to);
    world.step_clock(NAMES[1], &workers[1], to).await;
    wait_for_beats(windlass).await;
}

/// Enqueues a job that is not due yet by the current clock.
async fn enqueue_for_half_an_hour(windlass: &Windlass) -> JobId {
    let later = Request::from(Append { ms: 0 }).delay(Duration::from_secs(1_800));
    let id = windlass.enqueue(later).await.unwrap().id;
    wait_for_beats(windlass).await;
    assert_eq!(state_of(windlass, id).await, JobState::Scheduled, "it ran before its time");
    id
}

/// Waits until every worker has renewed its lease `BEATS` times.
async fn wait_for_beats(windlass: &Windlass) {
    let store = windlass.client().store();
    let before = store.look().await.unwrap().beats;
    wait_until("the workers' heartbeats to go on", DEADLINE, || async {
        let beats = store.look().await.unwrap().beats;
        let went_on = before
            .iter()
            .all(|old| beats.iter().any(|new| new.worker == old.worker && new.beats >= old.beats + BEATS));
        if went_on { Seen::Yes(()) } else { Seen::NotYet(format!("{before:?} {beats:?}")) }
    })
    .await;
}

/// The registered workers, and how many jobs each leases.
async fn incarnations(windlass: &Windlass) -> BTreeMap<WorkerId, u64> {
    let workers = windlass.client().store().workers().await.unwrap();
    workers.into_iter().map(|worker| (worker.id, worker.running)).collect()
}

async fn wait_for_both_at_work(windlass: &Windlass) -> BTreeMap<WorkerId, u64> {
    wait_until("both processes to hold jobs", DEADLINE, || async {
        Seen::when(incarnations(windlass).await, |all| {
            all.values().all(|running| *running > 0) && all.values().sum::<u64>() == HELD as u64
        })
    })
    .await
}

async fn wait_for_completion(windlass: &Windlass, id: JobId) {
    wait_until("a job to complete by the current clock", DEADLINE, || async {
        Seen::when(state_of(windlass, id).await, |state| *state == JobState::Completed)
    })
    .await;
}

async fn check_one_run_each(windlass: &Windlass, ids: &[JobId]) {
    for id in ids {
        let detail = windlass.client().store().job(*id).await.unwrap().expect("the job is there");
        let runs: Vec<&str> = detail.attempts.iter().map(|run| run.outcome.as_str()).collect();
        assert_eq!((detail.job.attempt, runs), (1, vec!["completed"]), "{detail:?}");
    }
}

/// A producer that enqueues jobs one after the other.
struct Load {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<JobId>>,
}

impl Load {
    fn start(windlass: &Windlass) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let (windlass, stopped) = (windlass.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let mut ids = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                ids.push(windlass.enqueue(Append { ms: 1 }).await.unwrap().id);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            ids
        });
        Load { stop, task }
    }

    async fn end(self) -> Vec<JobId> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}
