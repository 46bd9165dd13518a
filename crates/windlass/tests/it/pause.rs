//! A worker is stopped for longer than its lease and then resumed: its late writes change nothing.

use std::time::Duration;

use windlass::{JobId, JobState, Request, Windlass};
use windlass_core::store::{JobDetail, WorkerRow};
use windlass_core::{Token, WorkerId};
use windlass_testkit::process::Process;
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::{Append, LateSettle, TxEffect};
use crate::world::{World, wait_all_finished, wait_for_leases};
use crate::{count, on_both};

const LEASE: Duration = Duration::from_millis(800);
const DEADLINE: Duration = Duration::from_secs(60);
/// Long enough that the jobs still run when the worker is stopped, and short enough that they are over when it resumes.
const RUN_MS: u64 = 1_000;
const EACH: usize = 2;
const MOST_ROUNDS: usize = 25;

on_both! {
    async fn a_paused_worker_changes_nothing_when_it_wakes(world: World) {
        let (mut settles, mut rounds) = (0, 0);
        let windlass = world.windlass().await;
        // The dispatcher must settle before a heartbeat reports the lost lease. It wins this race in most rounds.
        while rounds < count(1, 20) || settles == 0 {
            assert!(rounds < MOST_ROUNDS, "the dispatcher never settled late");
            let round = rounds;
            rounds += 1;
            let Paused { sleeper, first, leased, mut ids } = pause_at_work(&world, &windlass, round).await;
            let heir = world.worker(&format!("heir-{round}"), LEASE);
            wait_until("the paused worker to be declared dead", DEADLINE, || async {
                let workers = windlass.client().store().workers().await.unwrap();
                Seen::when(workers, |all| all.iter().all(|w| w.id != first.id))
            })
            .await;
            wait_all_finished(&windlass, DEADLINE).await;
            ids.sort();
            let before = (details(&windlass, &ids).await, world.effect_ids().await);
            let quiet = (sleeper.stdout(), sleeper.stderr().len());
            assert!(!quiet.0.contains("late "), "it wrote before it was stopped: {}", sleeper.output());
            sleeper.resume().unwrap();

            wait_until("a late report and a late settle of each job that outlives its run", DEADLINE, || async {
                let refused = leased.late.iter().map(|(id, token)| format!("late {id} {token} reported 0 settled false"));
                let (said, refused) = (sleeper.stdout(), refused.collect::<Vec<_>>());
                assert!(!said.contains("settled true"), "a late settle was accepted: {said}");
                Seen::when(said, |said| refused.iter().all(|line| said.lines().any(|l| l == line)))
            })
            .await;
            let log = wait_for_new_incarnation(&windlass, &sleeper, first.id, quiet.1).await;
            settles += stale_settles(&log, &leased.append);
            let after = (details(&windlass, &ids).await, world.effect_ids().await);
            assert_eq!(format!("{before:?}"), format!("{after:?}"), "a late write changed something");
            check(&before.0, &leased);
            drop((sleeper, heir));
        }
        println!("{rounds} pauses; {settles} late settles by the dispatcher, {} by handlers", rounds * EACH);
        world.end().await;
    }
}

/// A stopped worker and what it was running.
struct Paused {
    sleeper: Process,
    first: WorkerRow,
    leased: Leased,
    ids: Vec<JobId>,
}

/// Runs in progress when the worker was stopped.
struct Leased {
    append: Vec<(JobId, Token)>,
    late: Vec<(JobId, Token)>,
}

/// Stops a worker after all its jobs have begun and before any has ended, while it holds no lock on a SQLite file.
/// With the lock, no other process could write.
async fn pause_at_work(world: &World, windlass: &Windlass, round: usize) -> Paused {
    for attempt in 0.. {
        let append = enqueue(windlass, || Append { ms: RUN_MS }.into()).await;
        let late = enqueue(windlass, || LateSettle { ms: RUN_MS }.into()).await;
        let sleeper = world.worker(&format!("sleeper-{round}-{attempt}"), LEASE);
        let first = wait_for_leases(windlass, DEADLINE).await;
        let runs_of = |ids: &[JobId]| -> Vec<_> {
            world.entries().lines.into_iter().filter(|(id, _)| ids.contains(id)).collect()
        };
        wait_until("every job to run", DEADLINE, || async {
            Seen::when(runs_of(&append).len() + runs_of(&late).len(), |runs| *runs == 2 * EACH)
        })
        .await;
        sleeper.stop().unwrap();
        let patience = Duration::from_secs(2);
        if let Ok(enqueued) = tokio::time::timeout(patience, windlass.enqueue(TxEffect {})).await {
            let leased = Leased { append: runs_of(&append), late: runs_of(&late) };
            let ids = append.into_iter().chain(late).chain([enqueued.unwrap().id]).collect();
            return Paused { sleeper, first, leased, ids };
        }
        sleeper.resume().unwrap();
        wait_all_finished(windlass, DEADLINE).await;
    }
    unreachable!("the loop ends with a pause")
}

async fn enqueue(windlass: &Windlass, job: impl Fn() -> Request) -> Vec<JobId> {
    let jobs: Vec<Request> = (0..EACH).map(|_| job()).collect();
    windlass.enqueue_many(jobs).await.unwrap().iter().map(|e| e.id).collect()
}

/// Waits until the resumed worker has registered again, and returns its log since `from`. A rejected heartbeat makes it
/// register again.
async fn wait_for_new_incarnation(
    windlass: &Windlass,
    sleeper: &Process,
    first: WorkerId,
    from: usize,
) -> String {
    wait_until("the woken worker to start over as a new one", DEADLINE, || async {
        let workers = windlass.client().store().workers().await.unwrap();
        let log = sleeper.stderr()[from..].to_owned();
        let is_new = workers.len() == 2 && workers.iter().all(|w| w.id != first);
        let lost = log.contains(&format!("starting over as a new worker worker={first}"));
        if is_new && lost { Seen::Yes(log) } else { Seen::NotYet(format!("{workers:?}; {log}")) }
    })
    .await
}

/// Settlements of the dispatcher that the store rejected as stale.
fn stale_settles(log: &str, runs: &[(JobId, Token)]) -> usize {
    let stale = |id: &JobId| log.contains(&format!("the lease was no longer ours job={id}\n"));
    runs.iter().filter(|(id, _)| stale(id)).count()
}

fn check(details: &[JobDetail], leased: &Leased) {
    for detail in details {
        assert_eq!(detail.job.state, JobState::Completed);
    }
    for (id, token) in leased.append.iter().chain(&leased.late) {
        let detail = details.iter().find(|detail| detail.job.id == *id).expect("the job is there");
        let run = detail.attempts.iter().find(|run| run.token == *token).expect("the run is recorded");
        assert_eq!(run.outcome, "lost", "{detail:?}");
        assert!(!detail.logs.iter().any(|l| l.line == format!("late under {token}")), "{detail:?}");
    }
}

async fn details(windlass: &Windlass, ids: &[JobId]) -> Vec<JobDetail> {
    let mut all = Vec::new();
    for id in ids {
        all.push(windlass.client().store().job(*id).await.unwrap().expect("the job is there"));
    }
    all
}
