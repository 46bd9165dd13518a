//! Repeated kill -9 of workers under load: no accepted job is lost, and no transactional effect happens twice.

use std::collections::HashMap;
use std::time::Duration;

use windlass::{JobId, JobState, Request, Windlass};
use windlass_core::Token;
use windlass_testkit::process::Process;
use windlass_testkit::seed::Seed;
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::{Append, TxEffect};
use crate::world::{World, wait_all_finished, wait_for_leases};
use crate::{count, on_both};

const LEASE: Duration = Duration::from_millis(1_000);
const DEADLINE: Duration = Duration::from_secs(60);
/// Delay between the first effect and the kill. The minimum lets suspects finish: they run first and alone, and one
/// whose process dies three times becomes a dead letter.
const LEAST_MS: u64 = 10;
const LONGEST_MS: u64 = 60;

on_both! {
    async fn workers_are_killed_under_load(world: World) {
        let cycles = count(20, 200);
        let windlass = world.windlass().await;
        let mut seed = Seed::from_environment();
        let (mut appended, mut transactional) = (Vec::new(), Vec::new());
        let (mut kills, mut missed, mut in_flight) = (0, 0, 0);
        while kills < cycles {
            let jobs: Vec<Request> = (0..30).map(|_| Append { ms: seed.below(4) }.into()).collect();
            appended.extend(windlass.enqueue_many(jobs).await.unwrap().into_iter().map(|e| e.id));
            let jobs: Vec<Request> = (0..10).map(|_| TxEffect {}.into()).collect();
            transactional.extend(windlass.enqueue_many(jobs).await.unwrap().into_iter().map(|e| e.id));
            let before = world.entries().lines.len();
            let mut worker = world.worker(&format!("worker-{kills}-{missed}"), LEASE);
            wait_until("the worker to work", DEADLINE, || async {
                Seen::when(world.entries().lines.len(), |lines| *lines > before)
            })
            .await;
            tokio::time::sleep(Duration::from_millis(LEAST_MS + seed.below(LONGEST_MS - LEAST_MS))).await;
            worker.kill().unwrap();
            // A kill while no job was leased proves nothing and does not count.
            match leased_by(&windlass, &worker).await {
                0 => missed += 1,
                leased => (kills, in_flight) = (kills + 1, in_flight + leased),
            }
            assert!(missed <= cycles, "{missed} kills hit no work, {kills} did");
        }
        let _last = world.worker("last", LEASE);
        wait_all_finished(&windlass, Duration::from_secs(120)).await;
        let repeated = check(&world, &windlass, &appended, &transactional).await;
        let jobs = appended.len() + transactional.len();
        println!(
            "{kills} kills with {in_flight} leases in flight, {missed} more without; {jobs} jobs, {repeated} of \
             them with more than one effect"
        );
        world.end().await;
    }

    async fn a_killed_worker_leaves_its_jobs_to_others_within_three_leases(world: World) {
        let windlass = world.windlass().await;
        let id = windlass.enqueue(Append { ms: 60_000 }).await.unwrap().id;
        let mut worker = world.worker("first", LEASE);
        let first = wait_for_leases(&windlass, DEADLINE).await;
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

/// Jobs leased by the killed worker. No other worker has reclaimed them yet.
pub(crate) async fn leased_by(windlass: &Windlass, dead: &Process) -> u64 {
    let workers = windlass.client().store().workers().await.unwrap();
    let label = format!("pid {}", dead.id());
    workers.iter().find(|worker| worker.label == label).map_or(0, |worker| worker.running)
}

/// Every accepted job completed, every effect belongs to a recorded run, each run has at most one effect, and
/// transactional effects happened once. Returns the number of jobs with more than one effect.
async fn check(world: &World, windlass: &Windlass, appended: &[JobId], transactional: &[JobId]) -> usize {
    let entries = world.entries();
    let mut effects: HashMap<JobId, Vec<Token>> = HashMap::new();
    for (id, token) in &entries.lines {
        effects.entry(*id).or_default().push(*token);
    }
    for id in appended.iter().chain(transactional) {
        let detail =
            windlass.client().store().job(*id).await.unwrap().expect("an accepted job is never lost");
        assert_eq!(detail.job.state, JobState::Completed, "{detail:?}");
        let (last, earlier) = detail.attempts.split_last().expect("it ran");
        let lost = earlier.iter().all(|run| run.outcome == "lost");
        assert!(last.outcome == "completed" && lost, "a run without a reason: {detail:?}");
        for token in effects.get(id).into_iter().flatten() {
            assert!(detail.attempts.iter().any(|run| run.token == *token), "{token} is no run of {detail:?}");
        }
    }
    let verdict = entries.judge(appended.iter().copied());
    assert_eq!((verdict.lost, verdict.doubled, verdict.unknown), (vec![], vec![], vec![]));
    let mut expected = transactional.to_vec();
    expected.sort();
    assert_eq!(world.effect_ids().await, expected, "each transactional effect exactly once");
    verdict.repeated.len()
}
