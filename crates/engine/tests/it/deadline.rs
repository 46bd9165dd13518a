//! A lock that is never released: the worker's calls time out and are retried, and nothing is lost or done twice once
//! the lock is gone.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::sync::Semaphore;
use windlass_core::{JobState, KindSpec};
use windlass_engine::{Completion, Handlers, JobRequest, Waited, Worker, WorkerOptions, handler};
use windlass_store_postgres::Options;
use windlass_testkit::signal::{Seen, wait_until};

use crate::place::{Place, server};

const DEADLINE: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_survives_a_stuck_lock() {
    let place = Place::postgres_with(Options { statement_timeout: DEADLINE, ..Options::default() }).await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = gate.clone();
    let mut handlers = Handlers::default();
    let run = handler(move |_, _: serde::de::IgnoredAny| {
        let waits = waits.clone();
        async move {
            waits.acquire().await?.forget();
            Ok(Completion::done())
        }
    });
    handlers.add(KindSpec::new("WAIT", "MAIN"), run);
    let client = place.client(&["MAIN"], &handlers).await;
    let mut jobs = Vec::new();
    for _ in 0..2 {
        jobs.push(client.enqueue(JobRequest::new("WAIT", b"{}".to_vec())).await.unwrap().id);
    }
    let options = WorkerOptions { concurrency: Some(1), prefetch: 0, ..WorkerOptions::default() };
    let worker = Worker::start(client.clone(), &handlers, options).await.unwrap();
    let before = worker.id();
    wait_until("the first job to run", SOON, || async {
        let job = client.store().job(jobs[0]).await.unwrap().unwrap().job;
        Seen::when(job.state, |state| *state == JobState::Running)
    })
    .await;

    let mut somebody = PgConnection::connect(&server()).await.unwrap();
    let tables = ["ready", "claims", "finished"].map(|table| format!("{}.{table}", place.schema()));
    let lock = format!("begin; lock table {} in access exclusive mode", tables.join(", "));
    somebody.execute(AssertSqlSafe(lock)).await.unwrap();
    gate.add_permits(2);
    let waiting = format!(
        "select query_start::text from pg_stat_activity
         where wait_event_type = 'Lock' and query like '%from {}.claims c%order by c.token for update%'",
        place.schema()
    );
    let tries: Mutex<HashSet<String>> = Mutex::default();
    wait_until("the settlement to be tried three times", SOON, || async {
        let mut watcher = PgConnection::connect(&server()).await.unwrap();
        let seen = sqlx::query_scalar(AssertSqlSafe(waiting.clone())).fetch_all(&mut watcher).await;
        let mut tries = tries.lock().unwrap();
        tries.extend(seen.unwrap());
        Seen::when(tries.len(), |tries| *tries >= 3)
    })
    .await;
    somebody.execute("rollback").await.unwrap();

    for id in jobs {
        let Waited::Finished(job) = client.wait(id, SOON).await.unwrap() else { panic!("{id} does not end") };
        assert_eq!((job.state, job.attempt), (JobState::Completed, 1));
    }
    assert_eq!(worker.id(), before, "the worker kept its registration");
    worker.shutdown().await.unwrap();
    place.end().await;
}
