//! Database outages: Postgres restarts under load, and LISTEN connections are terminated.

use std::time::Duration;

use sqlx::{Connection, Executor};
use windlass::{JobId, JobState, Windlass, WorkerOptions};
use windlass_testkit::postgres::Server;
use windlass_testkit::signal::{Seen, wait_until};

use crate::count;
use crate::jobs::{self, Append};
use crate::world::{Database, World, postgres_url, wait_all_finished};

const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_restarted_under_load() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(home.path());
    let ledger = directory.path().join("effects.ledger");
    let options = WorkerOptions { lease: Duration::from_secs(3), ..WorkerOptions::default() };
    let builder = || jobs::builder(&server.url(), &ledger, "effects");
    let windlass = builder().worker(options).migrate().build().await.unwrap();
    let workers = windlass.start().await.unwrap();
    let mut accepted: Vec<JobId> = Vec::new();
    let mut refused = 0;
    for _ in 0..count(4, 50) {
        refused += offer(&windlass, &mut accepted, 300).await;
        let producer = {
            let windlass = windlass.clone();
            tokio::spawn(async move {
                let mut accepted = Vec::new();
                let refused = offer(&windlass, &mut accepted, 600).await;
                (accepted, refused)
            })
        };
        tokio::task::block_in_place(|| server.restart());
        let (more, failed) = producer.await.unwrap();
        accepted.extend(more);
        refused += failed;
    }
    assert!(refused > 0, "no call met the restart");
    let producer = builder().build().await.unwrap();
    wait_all_finished(&producer, Duration::from_secs(60)).await;
    for id in &accepted {
        let detail =
            producer.client().store().job(*id).await.unwrap().expect("an accepted job is never lost");
        assert_eq!(detail.job.state, JobState::Completed);
    }
    println!("{} accepted, {refused} refused", accepted.len());
    workers.shutdown().await.unwrap();
}

/// Enqueues one by one; a refused call is not tried again. Returns how many were refused.
async fn offer(windlass: &Windlass, accepted: &mut Vec<JobId>, jobs: usize) -> usize {
    let mut refused = 0;
    for _ in 0..jobs {
        match windlass.enqueue(Append { ms: 0 }).await {
            Ok(enqueued) => accepted.push(enqueued.id),
            Err(_) => refused += 1,
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_listen_connection_delays_nothing_beyond_the_poll() {
    let world = World::new(Database::Postgres).await;
    let windlass = world.windlass().await;
    let workers = windlass.start().await.unwrap();
    let other = world.windlass().await;
    let mut admin = sqlx::PgConnection::connect(&postgres_url()).await.unwrap();
    let schema = world.effects().replace(".effects", "");
    let mut cut = 0;
    for _ in 0..count(3, 200) {
        let query = format!(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where query ilike 'listen%{schema}%'"
        );
        let (n,): (i64,) = sqlx::query_as(sqlx::AssertSqlSafe(query)).fetch_one(&mut admin).await.unwrap();
        cut += n;
        let id = other.enqueue(Append { ms: 0 }).await.unwrap().id;
        wait_until("the job to run by polling", Duration::from_secs(3), || async {
            Seen::when(world.entries().lines, |lines| lines.iter().any(|(ran, _)| *ran == id))
        })
        .await;
    }
    assert!(cut > 0, "no LISTEN connection was found to cut");
    admin.execute("select 1").await.unwrap();
    wait_all_finished(&other, DEADLINE).await;
    workers.shutdown().await.unwrap();
    world.end().await;
}
