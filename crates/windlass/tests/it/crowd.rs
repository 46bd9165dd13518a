//! Eight processes write to one SQLite file: none fails because the database is locked.

use std::time::{Duration, Instant};

use windlass::{JobState, Request};
use windlass_testkit::process::Process;

use crate::child;
use crate::count;
use crate::jobs::{self, Append, TxEffect};
use crate::world::{Database, World, count_in, wait_all_finished};

const MEMBER: &str = "WINDLASS_CHILD_MEMBER_SECONDS";
const PROCESSES: usize = 8;

/// Child process: one of the eight, which produces and works for some seconds.
#[test]
fn member() {
    let Ok(seconds) = std::env::var(MEMBER) else { return };
    let url = std::env::var(child::DATABASE).unwrap();
    let ledger = std::env::var(child::LEDGER).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let windlass = jobs::builder(&url, ledger.as_ref(), "effects").build().await.unwrap();
        let workers = windlass.start().await.unwrap();
        let until = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
        let mut accepted = 0;
        while Instant::now() < until {
            windlass.enqueue(Append { ms: 1 }).await.unwrap();
            windlass.enqueue(TxEffect {}).await.unwrap();
            let bulk: Vec<Request> = (0..20).map(|_| Append { ms: 0 }.into()).collect();
            windlass.enqueue_many(bulk).await.unwrap();
            let mut tx = windlass.begin().await.unwrap();
            windlass.enqueue_in(&mut tx, Append { ms: 0 }).await.unwrap();
            tx.commit().await.unwrap();
            accepted += 23;
        }
        println!("accepted {accepted}");
        workers.shutdown().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_share_one_file() {
    let world = World::new(Database::Sqlite).await;
    let seconds = count(8, 60);
    let mut members: Vec<Process> = (0..PROCESSES)
        .map(|n| {
            let mut member = std::process::Command::new(std::env::current_exe().unwrap());
            member.args(["--exact", "crowd::member", "--nocapture"]);
            member.env(child::DATABASE, &world.url).env(child::LEDGER, world.ledger());
            member.env(MEMBER, seconds.to_string());
            Process::start(&format!("member-{n}"), world.directory(), member).unwrap()
        })
        .collect();
    let mut accepted = 0;
    for member in &mut members {
        let status = member.wait(Duration::from_secs(seconds as u64 + 90));
        assert!(status.success(), "{}", member.output());
        assert!(!member.output().to_lowercase().contains("locked"), "{}", member.output());
        let line = member.stdout();
        let count = line.lines().find_map(|line| line.strip_prefix("accepted ")).expect("a count");
        accepted += count.parse::<u64>().unwrap();
    }
    let windlass = world.windlass().await;
    let workers = windlass.start().await.unwrap();
    wait_all_finished(&windlass, Duration::from_secs(60)).await;
    assert_eq!(count_in(&windlass, &[JobState::Completed]).await, accepted);
    println!("{accepted} jobs by {PROCESSES} processes in {seconds} s");
    workers.shutdown().await.unwrap();
    world.end().await;
}
