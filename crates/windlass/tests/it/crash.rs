//! After a crash: the jobs of a killed worker run again within seconds, and nobody else waits for them.

use std::time::{Duration, Instant};

use windlass::{JobState, Request};
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::Append;
use crate::on_both;
use crate::world::{World, count_in, wait_for_leases};

/// Longer than the test: only the lock shows the death.
const LEASE: Duration = Duration::from_secs(120);
const JOBS: usize = 20;

on_both! {
    async fn the_jobs_of_a_killed_worker_run_again_within_seconds(world: World) {
        let windlass = world.windlass().await;
        let mut worker = world.worker("first", LEASE);
        let jobs: Vec<Request> = (0..JOBS).map(|_| Append { ms: 1_500 }.into()).collect();
        windlass.enqueue_many(jobs).await.unwrap();
        wait_for_leases(&windlass, Duration::from_secs(20)).await;
        worker.kill().unwrap();
        let killed = Instant::now();
        let _second = world.worker("second", LEASE);
        wait_until("every job to complete", Duration::from_secs(60), || async {
            Seen::when(count_in(&windlass, &[JobState::Completed]).await, |done| *done == JOBS as u64)
        })
        .await;
        // Twenty jobs of 1.5 s ten at a time take 3 s, and 4 s are allowed until the death is seen.
        assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
        println!("all done {:?} after the kill", killed.elapsed());
        world.end().await;
    }
}
