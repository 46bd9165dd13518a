//! One job kills its process; five hundred others do not.

use std::time::{Duration, Instant};

use windlass::{JobId, JobState, Request, Windlass};
use windlass_core::store::{Change, JobFilter};

use crate::jobs::{Abort, Append};
use crate::on_both;
use crate::world::{World, count_in};

const LEASE: Duration = Duration::from_millis(800);

/// Does not wait out the delay of a job that was lost: over all deaths that is four minutes.
async fn hurry(windlass: &Windlass, job: JobId) {
    let store = windlass.client().store();
    let detail = store.job(job).await.unwrap().expect("the job is there");
    if detail.job.state == JobState::Scheduled {
        let now = Change { priority: None, run_at: Some(store.now().await.unwrap()) };
        store.change(job, &now, None).await.unwrap();
    }
}

on_both! {
    async fn a_job_that_kills_its_process_costs_no_other_job_an_attempt(world: World) {
        let windlass = world.windlass().await;
        let good: Vec<Request> = (0..250).map(|_| Append { ms: 0 }.into()).collect();
        windlass.enqueue_many(good).await.unwrap();
        let killer = windlass.enqueue(Abort {}).await.unwrap().id;
        let good: Vec<Request> = (0..250).map(|_| Append { ms: 0 }.into()).collect();
        windlass.enqueue_many(good).await.unwrap();

        let begun = Instant::now();
        let mut deaths = 0;
        let mut worker = world.worker("worker-0", LEASE);
        let live = [JobState::Pending, JobState::Scheduled, JobState::Running];
        while count_in(&windlass, &live).await > 0 {
            assert!(begun.elapsed() < Duration::from_secs(120), "{deaths} deaths; {}", worker.output());
            if !worker.is_running().unwrap() {
                deaths += 1;
                worker = world.worker(&format!("worker-{deaths}"), LEASE);
            }
            hurry(&windlass, killer).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Three deaths raise it to a trial, and three more alone make it a dead letter.
        assert_eq!(deaths, 6);
        let detail = windlass.client().store().job(killer).await.unwrap().expect("the job is there");
        assert_eq!(detail.job.state, JobState::DeadLetter);
        assert!(detail.job.last_error.unwrap().contains("died 6 times"));
        assert_eq!(count_in(&windlass, &[JobState::Completed]).await, 500);
        let store = windlass.client().store();
        let filter = JobFilter { states: vec![JobState::Completed], ..JobFilter::default() };
        let page = windlass_core::store::Page { before: None, limit: 500, excerpt: None };
        let attempts: Vec<u16> = store.list(&filter, &page).await.unwrap().iter().map(|job| job.attempt).collect();
        assert!(attempts.iter().all(|attempt| *attempt == 1), "a neighbour lost an attempt: {attempts:?}");
        world.end().await;
    }
}
