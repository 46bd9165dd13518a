//! A worker that stands still past its lease and then goes on: its late writes change nothing.

use std::time::Duration;

use windlass::{JobState, Request, Windlass};
use windlass_core::store::JobDetail;
use windlass_testkit::process::Process;
use windlass_testkit::signal::{Seen, wait_until};

use crate::child::Append;
use crate::child::Keyed;
use crate::world::{World, wait_all_finished, wait_for_leases};
use crate::{count, on_both};

const LEASE: Duration = Duration::from_millis(800);
const SOON: Duration = Duration::from_secs(60);

on_both! {
    async fn a_paused_worker_changes_nothing_when_it_wakes(world: World) {
        for round in 0..count(1, 20) {
            let windlass = world.windlass().await;
            let jobs: Vec<Request> = (0..8).map(|_| Append { ms: 1_500 }.into()).collect();
            let mut ids: Vec<_> = windlass.enqueue_many(jobs).await.unwrap().iter().map(|e| e.id).collect();
            let sleeper = world.worker(&format!("sleeper-{round}"), LEASE);
            let first = wait_for_leases(&windlass, SOON).await;
            pause(&windlass, &sleeper, &mut ids).await;
            let heir = world.worker(&format!("heir-{round}"), LEASE);
            wait_until("the paused worker to be declared dead", SOON, || async {
                let workers = windlass.client().store().workers().await.unwrap();
                Seen::when(workers, |all| all.iter().all(|w| w.id != first.id))
            })
            .await;
            wait_all_finished(&windlass, SOON).await;
            let before = details(&windlass, &ids).await;
            sleeper.resume().unwrap();
            wait_until("the woken worker to start over as a new one", SOON, || async {
                let workers = windlass.client().store().workers().await.unwrap();
                Seen::when(workers, |all| all.len() == 2 && all.iter().all(|w| w.id != first.id))
            })
            .await;
            assert_eq!(format!("{before:?}"), format!("{:?}", details(&windlass, &ids).await));
            for detail in &before {
                assert_eq!(detail.job.state, JobState::Completed);
            }
            assert!(before.iter().any(|d| d.attempts.iter().any(|a| a.outcome == "lost")), "no lease was lost");
            drop((sleeper, heir));
        }
        world.end().await;
    }
}

/// Stops the process at a moment when it holds no lock on a SQLite file; then nobody else could write.
async fn pause(windlass: &Windlass, process: &Process, ids: &mut Vec<windlass::JobId>) {
    loop {
        process.stop().unwrap();
        match tokio::time::timeout(Duration::from_secs(2), windlass.enqueue(Keyed {})).await {
            Ok(enqueued) => return ids.push(enqueued.unwrap().id),
            Err(_) => process.resume().unwrap(),
        }
    }
}

async fn details(windlass: &Windlass, ids: &[windlass::JobId]) -> Vec<JobDetail> {
    let mut all = Vec::new();
    for id in ids {
        all.push(windlass.client().store().job(*id).await.unwrap().expect("the job is there"));
    }
    all
}
