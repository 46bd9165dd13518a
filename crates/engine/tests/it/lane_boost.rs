//! Boosted jobs in more lanes than one claim fills.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use windlass_core::store::{Claim, Live, QueueUpdate, WorkerInfo};
use windlass_core::{JobId, KindSpec};
use windlass_engine::{Client, Completion, Handlers, JobRequest, Sweeper, handler};

use crate::on_both;
use crate::place::Place;

async fn put(client: &Client, key: usize, priority: i64) -> JobId {
    let request = JobRequest::new("STEP", b"{}".to_vec());
    let (priority, concurrency_key) = (Some(priority), Some(format!("key {key}")));
    client.enqueue(JobRequest { priority, concurrency_key, ..request }).await.unwrap().id
}

on_both! {
    /// SQLite fills 1,000 lanes per claim; the next claim continues.
    async fn late_jobs_go_first_in_their_lanes(place: Place) {
        const LANES: usize = 1_100;
        let mut handlers = Handlers::default();
        let step = |_, _: serde_json::Value| async { Ok(Completion::done()) };
        handlers.add(KindSpec::new("STEP", "Q"), handler(step));
        let client = place.client(&["Q"], &handlers).await;
        let queue = client.catalog().queue_named("Q").unwrap().id;
        let at_once = Some(Live::Set(Some(Duration::from_micros(1))));
        let update = QueueUpdate { boost_after: at_once, ..QueueUpdate::default() };
        assert!(place.store.update_queue(queue, &update).await.unwrap());
        let mut late = HashSet::new();
        for key in 0..LANES {
            late.insert(put(&client, key, 9).await);
        }
        for key in 0..LANES {
            put(&client, key, 5).await;
        }
        let mut sweeper = Sweeper::new(place.store.clone(), Duration::from_secs(60));
        for _ in 0..2 {
            sweeper.tick(Instant::now()).await.unwrap();
        }
        let info = WorkerInfo { label: "here".to_owned(), queues: vec![queue], lease: Duration::from_secs(60) };
        let worker = place.store.register_worker(&info).await.unwrap();
        let kinds = vec![client.catalog().kind_named("STEP").unwrap().id];
        let claim = Claim { worker, queue, kinds, limit: 5_000, level: windlass_core::sweep::Level::Ordinary };
        let mut leased: Vec<JobId> = Vec::new();
        while leased.len() < LANES {
            let some = place.store.claim(&claim).await.unwrap();
            assert!(!some.is_empty(), "{} of {LANES}", leased.len());
            leased.extend(some.iter().map(|job| job.id));
        }
        assert_eq!(leased.iter().filter(|job| late.contains(*job)).count(), LANES);
    }
}
