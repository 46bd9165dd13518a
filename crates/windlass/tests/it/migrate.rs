//! Migrations under load: the steps of a pack, and the whole schema, are reverted and applied while jobs run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass::pack::{PackStep, SqlText};
use windlass::{EnqueueError, JobId, JobState, Windlass, WorkerOptions};
use windlass_testkit::process::Process;
use windlass_testkit::signal::{Seen, wait_until};

use crate::child::{self, log_to_stderr};
use crate::jobs::{self, Append};
use crate::world::{World, wait_all_finished};
use crate::{count, on_both};

const DEADLINE: Duration = Duration::from_secs(30);
const GUEST: [PackStep; 2] = [
    PackStep {
        version: 1,
        name: "entries",
        up: SqlText::Same("create table windlass.guest_entries (id bigint)"),
        down: SqlText::Same("drop table windlass.guest_entries"),
    },
    PackStep {
        version: 2,
        name: "names",
        up: SqlText::Same("create table windlass.guest_names (name text)"),
        down: SqlText::Same("drop table windlass.guest_names"),
    },
];
const MEMBER: &str = "WINDLASS_CHILD_MIGRATE_MEMBER";

on_both! {
    async fn down_and_up_under_load(world: World) {
        let windlass = world.windlass().await;
        let workers = windlass.start().await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let producer = {
            let (windlass, stop) = (windlass.clone(), stop.clone());
            tokio::spawn(async move {
                let mut accepted: Vec<JobId> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(enqueued) = windlass.enqueue(Append { ms: 0 }).await {
                        accepted.push(enqueued.id);
                    }
                }
                accepted
            })
        };
        let other = world.windlass().await;
        let store = other.client().store();
        // The schema's only step holds the jobs; the steps of a pack are reverted without touching them.
        assert_eq!(store.migrate_pack_up("guest", &GUEST).await.unwrap(), [1, 2]);
        for to in [1, 0].repeat(count(2, 10)) {
            let before = world.entries().lines.len();
            let reverted = store.migrate_pack_down("guest", &GUEST, to).await.unwrap();
            assert_eq!(reverted.len() as i64, 2 - to);
            assert_eq!(store.migrate_pack_up("guest", &GUEST).await.unwrap().len(), reverted.len());
            wait_until("work to go on", DEADLINE, || async {
                Seen::when(world.entries().lines.len(), |lines| *lines > before)
            })
            .await;
        }
        store.migrate_pack_down("guest", &GUEST, 0).await.unwrap();
        stop.store(true, Ordering::Relaxed);
        let accepted = producer.await.unwrap();
        wait_all_finished(&other, DEADLINE).await;
        assert!(!accepted.is_empty());
        for id in &accepted {
            let detail = store.job(*id).await.unwrap().expect("an accepted job is never lost");
            assert_eq!(detail.job.state, JobState::Completed);
        }
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn processes_survive_a_dropped_and_recreated_schema(world: World) {
        let mut members: Vec<Process> = (0..2).map(|n| member(&world, n)).collect();
        let windlass = world.windlass().await;
        let store = windlass.client().store();
        for _ in 0..count(2, 20) {
            wait_for_work(&world, &windlass, &members).await;
            let before: Vec<_> = members.iter().map(schema_errors).collect();
            let reverted = store.migrate_down(0).await.unwrap();
            assert!(!reverted.is_empty());
            // Every process must meet the missing schema, not only live before and after it.
            wait_until("every producer to be refused and every worker to miss its schema", DEADLINE, || async {
                let mut met = members.iter().map(schema_errors).zip(&before);
                let met = met.all(|(now, old)| now.0 > old.0 && now.1 > old.1);
                if met { Seen::Yes(()) } else { Seen::NotYet(outputs(&members)) }
            })
            .await;
            assert_eq!(store.migrate_up(None).await.unwrap().len(), reverted.len());
        }
        wait_for_work(&world, &windlass, &members).await;
        for member in &mut members {
            assert!(member.is_running().unwrap(), "{}", member.output());
            assert!(!member.output().contains("panicked"), "{}", member.output());
            for line in lines(member, "refused ") {
                assert!(line.contains("the database has no Windlass schema"), "an error of another kind: {line}");
            }
        }
        drop(members);
        world.end().await;
    }
}

/// How often the producer was refused, and how often the worker lost its lease.
fn schema_errors(member: &Process) -> (usize, usize) {
    (lines(member, "refused ").len(), member.stderr().matches("lease lost: ").count())
}

fn member(world: &World, n: usize) -> Process {
    let mut command = world.command("migrate::member_process");
    command.env(MEMBER, "");
    Process::start(&format!("member-{n}"), world.directory(), command).unwrap()
}

/// Waits until every process has registered, and has enqueued a new job that ran.
async fn wait_for_work(world: &World, windlass: &Windlass, members: &[Process]) {
    wait_until("every worker to be there", DEADLINE, || async {
        let workers = windlass.client().store().workers().await.unwrap();
        let is_there = |id: u32| workers.iter().any(|worker| worker.label == format!("pid {id}"));
        let all = members.iter().all(|member| is_there(member.id()));
        if all { Seen::Yes(()) } else { Seen::NotYet(format!("{workers:?}; {}", outputs(members))) }
    })
    .await;
    let before: Vec<usize> = members.iter().map(|member| lines(member, "ack ").len()).collect();
    wait_until("every process to go on producing", DEADLINE, || async {
        let went_on = members.iter().zip(&before).all(|(member, n)| lines(member, "ack ").len() > *n);
        if went_on { Seen::Yes(()) } else { Seen::NotYet(outputs(members)) }
    })
    .await;
    wait_until("every new job to run", DEADLINE, || async {
        let ran = world.entries();
        let new = members.iter().zip(&before).map(|(member, n)| lines(member, "ack ").remove(*n));
        let waiting: Vec<String> =
            new.filter(|id| !ran.lines.iter().any(|(ran, _)| ran.to_string() == *id)).collect();
        if waiting.is_empty() {
            Seen::Yes(())
        } else {
            Seen::NotYet(format!("{waiting:?}; {}", outputs(members)))
        }
    })
    .await;
}

fn lines(member: &Process, start: &str) -> Vec<String> {
    member.stdout().lines().filter_map(|line| line.strip_prefix(start).map(str::to_owned)).collect()
}

fn outputs(members: &[Process]) -> String {
    members.iter().map(Process::output).map(|text| tail(&text)).collect::<Vec<_>>().join("\n")
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// Child process: works, enqueues one job after the other, and prints each answer.
#[test]
fn member_process() {
    if std::env::var_os(MEMBER).is_none() {
        return;
    }
    let setting = |name: &str| std::env::var(name).unwrap();
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ledger = setting(child::LEDGER);
        let options = WorkerOptions { lease: Duration::from_secs(3), ..WorkerOptions::default() };
        let builder = jobs::builder(&setting(child::DATABASE), Path::new(&ledger), &setting(child::EFFECTS));
        let windlass = builder.worker(options).build().await.unwrap();
        let _workers = windlass.start().await.unwrap();
        loop {
            match windlass.enqueue(Append { ms: 0 }).await {
                Ok(enqueued) => println!("ack {}", enqueued.id),
                Err(EnqueueError::Store(error)) => println!("refused {}", error.chain()),
                Err(error) => println!("refused by the engine: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
