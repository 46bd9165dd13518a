//! kill -9 of workers under load, again and again: nothing accepted is lost, nothing keyed happens twice.

use std::time::Duration;

use windlass::{JobId, JobState, Request};
use windlass_testkit::seed::Seed;
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::{Append, Keyed};
use crate::world::{World, wait_all_finished, wait_for_leases};
use crate::{count, on_both};

const LEASE: Duration = Duration::from_millis(1_000);
const SOON: Duration = Duration::from_secs(60);

on_both! {
    async fn workers_are_killed_under_load(world: World) {
        let cycles = count(20, 200);
        let windlass = world.windlass().await;
        let mut seed = Seed::from_environment();
        let (mut appended, mut keyed) = (Vec::new(), Vec::new());
        let mut killed_at_work = 0;
        for cycle in 0..cycles {
            let jobs: Vec<Request> = (0..30).map(|_| Append { ms: seed.below(4) }.into()).collect();
            appended.extend(windlass.enqueue_many(jobs).await.unwrap().into_iter().map(|e| e.id));
            let jobs: Vec<Request> = (0..10).map(|_| Keyed {}.into()).collect();
            keyed.extend(windlass.enqueue_many(jobs).await.unwrap().into_iter().map(|e| e.id));
            let before = world.entries().lines.len();
            let mut worker = world.worker(&format!("worker-{cycle}"), LEASE);
            wait_until("the worker to work", SOON, || async {
                Seen::when(world.entries().lines.len(), |lines| *lines > before)
            })
            .await;
            tokio::time::sleep(Duration::from_millis(seed.below(60))).await;
            let leased = windlass.client().store().workers().await.unwrap().iter().any(|w| w.running > 0);
            worker.kill().unwrap();
            killed_at_work += usize::from(leased);
        }
        assert!(killed_at_work * 2 >= cycles, "only {killed_at_work} of {cycles} kills hit a worker with leases");
        let _last = world.worker("last", LEASE);
        wait_all_finished(&windlass, Duration::from_secs(120)).await;
        check(&world, &windlass, &appended, &keyed).await;
        println!("{cycles} kills, {killed_at_work} with leases; {} jobs", appended.len() + keyed.len());
        world.end().await;
    }

    async fn a_killed_worker_leaves_its_jobs_to_others_within_three_leases(world: World) {
        let windlass = world.windlass().await;
        let id = windlass.enqueue(Append { ms: 60_000 }).await.unwrap().id;
        let mut worker = world.worker("first", LEASE);
        let first = wait_for_leases(&windlass, SOON).await;
        worker.kill().unwrap();
        let _second = world.worker("second", LEASE);
        wait_until("another worker to take the job", LEASE * 3 + Duration::from_secs(4), || async {
            let workers = windlass.client().store().workers().await.unwrap();
            Seen::when(workers, |all| all.iter().any(|w| w.id != first.id && w.running > 0))
        })
        .await;
        let tokens: Vec<_> = world.entries().lines.iter().map(|(_, token)| *token).collect();
        assert!(tokens.is_sorted(), "tokens must grow: {tokens:?}");
        windlass.client().store().job(id).await.unwrap().expect("the job is there");
        world.end().await;
    }
}

async fn check(world: &World, windlass: &windlass::Windlass, appended: &[JobId], keyed: &[JobId]) {
    for id in appended.iter().chain(keyed) {
        let detail =
            windlass.client().store().job(*id).await.unwrap().expect("an accepted job is never lost");
        assert_eq!(detail.job.state, JobState::Completed, "{detail:?}");
    }
    let verdict = world.entries().judge(appended.iter().copied());
    assert_eq!((verdict.lost, verdict.doubled, verdict.unknown), (vec![], vec![], vec![]));
    let mut expected = keyed.to_vec();
    expected.sort();
    assert_eq!(world.effect_ids().await, expected, "each keyed effect exactly once");
}
