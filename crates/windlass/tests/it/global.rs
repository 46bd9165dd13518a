//! A queue with a global concurrency limit and three processes that are killed repeatedly. No more of its jobs are
//! leased than the limit, and all complete except those whose process died three times while they ran alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use windlass::{JobId, Request};
use windlass_core::store::{Live, QueueUpdate};
use windlass_core::{QueueId, Store};
use windlass_testkit::seed::Seed;
use windlass_testkit::signal::{Seen, wait_until};
use windlass_testkit::spans;

use crate::jobs::{QueueSpan, spans_beside};
use crate::world::{World, died_alone, three_at_once, wait_all_finished};
use crate::{count, on_both};

const LEASE: Duration = Duration::from_millis(1_000);
const DEADLINE: Duration = Duration::from_secs(60);
const MOST: u32 = 3;

fn span_jobs(seed: &mut Seed, jobs: usize) -> Vec<Request> {
    (0..jobs).map(|_| Request::from(QueueSpan { ms: seed.below(6), until: None })).collect()
}

/// Polls the number of leased jobs until told to stop, and returns the maximum.
async fn watch(store: Arc<dyn Store>, queue: QueueId, over: Arc<AtomicBool>, looks: Arc<AtomicU64>) -> u64 {
    let mut most = 0;
    while !over.load(Ordering::Relaxed) {
        let queues = store.queues().await.unwrap();
        most = most.max(queues.iter().find(|q| q.id == queue).unwrap().running);
        looks.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    most
}

on_both! {
    async fn killed_processes_never_lease_more_than_the_queue_allows(world: World) {
        let windlass = world.windlass().await;
        let store = windlass.client().store().clone();
        let queue = windlass.client().catalog().queue_named("BULK").unwrap().id;
        let limit = QueueUpdate { global_concurrency: Some(Live::Set(Some(MOST))), ..QueueUpdate::default() };
        assert!(store.update_queue(queue, &limit).await.unwrap());
        let mut seed = Seed::from_environment();
        let names = ["first", "second", "third"];
        let mut workers = names.map(|name| world.worker(&format!("{name}-0"), LEASE));

        // Without kills: the handlers record which jobs overlapped.
        let mut put: Vec<JobId> = Vec::new();
        let file = spans_beside(&world.ledger());
        let held = |until| Request::from(QueueSpan { ms: 0, until: Some(until) });
        put.extend(three_at_once(&windlass, &file, "shared", held).await);
        put.extend(windlass.enqueue_many(span_jobs(&mut seed, 90)).await.unwrap().into_iter().map(|e| e.id));
        wait_all_finished(&windlass, DEADLINE).await;
        let judged = spans::judge(&file, &BTreeSet::new()).unwrap().remove("shared").unwrap();
        assert_eq!(judged.most_at_once, MOST as usize, "as many as may, and no more");

        // With kills: a killed run has no recorded end, so the leases are counted instead.
        let (over, looks) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let watching = tokio::spawn(watch(store.clone(), queue, over.clone(), looks.clone()));
        let lines = || std::fs::read_to_string(&file).map_or(0, |text| text.lines().count());
        let cycles = count(8, 80);
        for cycle in 1..=cycles {
            let before = lines();
            put.extend(windlass.enqueue_many(span_jobs(&mut seed, 20)).await.unwrap().into_iter().map(|e| e.id));
            wait_until("the workers to work", DEADLINE, || async { Seen::when(lines(), |now| *now > before) }).await;
            tokio::time::sleep(Duration::from_millis(10 + seed.below(40))).await;
            let unlucky = seed.below(3) as usize;
            workers[unlucky].kill().unwrap();
            workers[unlucky] = world.worker(&format!("{}-{cycle}", names[unlucky]), LEASE);
        }
        wait_all_finished(&windlass, Duration::from_secs(120)).await;
        over.store(true, Ordering::Relaxed);
        let most = watching.await.unwrap();
        assert!(most <= u64::from(MOST), "{most} were leased at once");
        let dead = died_alone(&windlass, &put).await.len();
        println!("{cycles} kills, {} jobs, {dead} dead by rule, at most {most} leased in {} looks", put.len(), looks.load(Ordering::Relaxed));
        world.end().await;
    }
}
