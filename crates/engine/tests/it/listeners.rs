//! Several workers on one handle of the store.

use std::time::{Duration, Instant};

use windlass_core::KindSpec;
use windlass_engine::{Client, Completion, Handlers, JobRequest, Waited, Worker, WorkerOptions, handler};

use crate::on_both;
use crate::place::{NEVER, Place};

const SOON: Duration = Duration::from_secs(20);
/// A job that is found by a wake-up ends long before this.
const BY_SIGNAL: Duration = Duration::from_secs(10);

fn handlers() -> Handlers {
    let mut handlers = Handlers::default();
    for (kind, queue) in [("LEFT_KIND", "LEFT"), ("RIGHT_KIND", "RIGHT")] {
        let done = handler(|_, _: serde::de::IgnoredAny| async { Ok(Completion::done()) });
        handlers.add(KindSpec::new(kind, queue), done);
    }
    handlers
}

fn options(queue: &str) -> WorkerOptions {
    WorkerOptions { queues: vec![queue.to_owned()], poll: NEVER, ..WorkerOptions::default() }
}

/// Enqueues one job and returns how long it took to end.
async fn run(client: &Client, kind: &str) -> Duration {
    let begun = Instant::now();
    let id = client.enqueue(JobRequest::new(kind, b"{}".to_vec())).await.unwrap().id;
    match client.wait(id, SOON).await.unwrap() {
        Waited::Finished(_) => begun.elapsed(),
        other => panic!("a job of {kind} {other:?} after {SOON:?}"),
    }
}

on_both! {
    async fn each_worker_is_woken_for_its_own_jobs(place: Place) {
        let handlers = handlers();
        let client = place.client(&["LEFT", "RIGHT"], &handlers).await;
        let left = Worker::start(client.clone(), &handlers, options("LEFT")).await.unwrap();
        let right = Worker::start(client.clone(), &handlers, options("RIGHT")).await.unwrap();
        // The first job of each may be found by the initial poll.
        for kind in ["LEFT_KIND", "RIGHT_KIND"] {
            run(&client, kind).await;
        }
        for round in 0..5 {
            for kind in ["LEFT_KIND", "RIGHT_KIND"] {
                let took = run(&client, kind).await;
                assert!(took < BY_SIGNAL, "round {round}: {kind} took {took:?}");
            }
        }
        left.shutdown().await.unwrap();
        let took = run(&client, "RIGHT_KIND").await;
        assert!(took < BY_SIGNAL, "{took:?} after another worker stopped");
        right.shutdown().await.unwrap();
    }
}
