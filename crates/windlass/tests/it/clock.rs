//! The database's clock jumps by an hour: no living worker loses its jobs.

use std::time::{Duration, Instant};

use windlass::JobState;
use windlass_core::Store;
use windlass_engine::Sweeper;

use crate::child::Append;
use crate::on_both;
use crate::world::{World, state_of, wait_all_finished, wait_for_leases};

const LEASE: Duration = Duration::from_millis(500);
const HOUR_MICROS: i64 = 3_600_000_000;

on_both! {
    async fn a_stepped_clock_expires_nothing(world: World) {
        let windlass = world.windlass().await;
        let sweeping = world.windlass().await;
        let store = sweeping.client().store().clone();
        for step in [HOUR_MICROS, -HOUR_MICROS] {
            let id = windlass.enqueue(Append { ms: 2_500 }).await.unwrap().id;
            let worker = world.worker(&format!("worker-{step}"), LEASE);
            let row = wait_for_leases(&windlass, Duration::from_secs(30)).await;
            store.set_clock_offset(step);
            let mut sweeper = Sweeper::new(store.clone(), LEASE);
            let begun = Instant::now();
            let mut seen_expired = false;
            while begun.elapsed() < LEASE * 4 {
                seen_expired |= is_expired(&*store, row.id).await;
                let taken = sweeper.tick(Instant::now()).await.unwrap();
                assert_eq!(taken, Default::default(), "a living worker lost its jobs");
                tokio::time::sleep(LEASE / 10).await;
            }
            assert_eq!(seen_expired, step > 0, "the step must be seen for the test to mean anything");
            store.set_clock_offset(0);
            wait_all_finished(&windlass, Duration::from_secs(30)).await;
            let detail = windlass.client().store().job(id).await.unwrap().expect("the job is there");
            assert_eq!((detail.job.attempt, detail.job.state), (1, JobState::Completed));
            assert_eq!(state_of(&windlass, id).await, JobState::Completed);
            drop(worker);
        }
        world.end().await;
    }
}

async fn is_expired(store: &dyn Store, worker: windlass_core::WorkerId) -> bool {
    store.beats().await.unwrap().iter().any(|beat| beat.worker == worker && beat.expired)
}
