//! Wake-ups: a job starts at once although the next poll is 30 seconds away.

use std::time::{Duration, Instant};

use windlass::{Windlass, WorkerOptions};
use windlass_core::JobId;
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::{self, Append};
use crate::on_both;
use crate::world::World;

/// Longer than `PATIENCE`, so that only a wake-up can start a job in time.
const POLL: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(5);

async fn worker(world: &World) -> (Windlass, windlass::Workers) {
    let options = WorkerOptions { poll: POLL, ..WorkerOptions::default() };
    let windlass =
        jobs::builder(&world.url, &world.ledger(), &world.effects()).worker(options).build().await.unwrap();
    let workers = windlass.start().await.unwrap();
    // The first poll of a new worker must be over before the test enqueues.
    let warm = windlass.enqueue(Append { ms: 0 }).await.unwrap().id;
    ran(world, warm).await;
    (windlass, workers)
}

async fn ran(world: &World, id: JobId) {
    wait_until("the job to run", PATIENCE, || async {
        Seen::when(world.entries().lines, |lines| lines.iter().any(|(ran, _)| *ran == id))
    })
    .await;
}

on_both! {
    async fn an_idle_worker_starts_a_job_at_once(world: World) {
        let (windlass, workers) = worker(&world).await;
        for _ in 0..5 {
            let id = windlass.enqueue(Append { ms: 0 }).await.unwrap().id;
            ran(&world, id).await;
        }
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn a_job_from_another_handle_starts_at_once(world: World) {
        let (_windlass, workers) = worker(&world).await;
        let other = world.windlass().await;
        for _ in 0..5 {
            let id = other.enqueue(Append { ms: 0 }).await.unwrap().id;
            ran(&world, id).await;
        }
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn a_job_starts_at_once_after_a_late_commit(world: World) {
        let (windlass, workers) = worker(&world).await;
        let other = world.windlass().await;
        for _ in 0..3 {
            let mut tx = other.begin().await.unwrap();
            let id = other.enqueue_in(&mut tx, Append { ms: 0 }).await.unwrap().id;
            let mut later = None;
            if world.database == crate::world::Database::Postgres {
                // Later jobs are enqueued and run meanwhile, so the late commit has a smaller id than the newest job.
                let enqueued = windlass.enqueue(Append { ms: 0 }).await.unwrap().id;
                ran(&world, enqueued).await;
                later = Some(enqueued);
            }
            assert!(!world.entries().lines.iter().any(|(ran, _)| *ran == id), "ran before its commit");
            tx.commit().await.unwrap();
            ran(&world, id).await;
            assert_ne!(Some(id), later);
        }
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn a_delayed_job_starts_when_due_and_not_before(world: World) {
        let (windlass, workers) = worker(&world).await;
        let delay = Duration::from_millis(700);
        let begun = Instant::now();
        let request = windlass::Request::from(Append { ms: 0 }).delay(delay);
        let id = windlass.enqueue(request).await.unwrap().id;
        ran(&world, id).await;
        assert!(begun.elapsed() >= delay, "started after {:?}", begun.elapsed());
        workers.shutdown().await.unwrap();
        world.end().await;
    }
}
