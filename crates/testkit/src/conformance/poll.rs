//! The poll, which is sufficient for correctness, and wake-ups, which only reduce latency.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::scale::Bounds;
use windlass_core::store::{
    KindLimits, KindUpdate, Live, Permits, QueueDue, QueueKinds, QueueUpdate, SuspectsDue, Wake,
};
use windlass_core::{KindId, KindSpec, NewJob, Outcome, QueueId, Resource, Time, WorkerId};

use super::{Harness, KIND, OTHER_KIND, OTHER_QUEUE, QUEUE};
use crate::signal::{Seen, wait_until};

const MINUTE: Duration = Duration::from_secs(60);

async fn due(h: &Harness, worker: WorkerId, queue: QueueId) -> QueueDue {
    let poll = h.poll(worker).await;
    let mut rows = poll.queues.into_iter().filter(|q| q.queue == queue);
    let row = rows.next().unwrap_or_else(|| panic!("queue {queue} is not in the answer"));
    assert!(rows.next().is_none(), "queue {queue} is there twice");
    row
}

pub async fn an_idle_queue_is_reported(h: Harness) {
    let worker = h.worker().await;
    let before = h.now().await;
    let poll = h.poll(worker).await;
    assert!(poll.now >= before && poll.now <= h.now().await);
    assert!(poll.cancel.is_empty());
    for queue in [h.queue, h.other_queue] {
        let row = due(&h, worker, queue).await;
        assert_eq!(
            (row.next_due, row.suspects, row.paused, row.concurrency),
            (None, SuspectsDue::default(), false, 10)
        );
    }
}

pub async fn next_due_is_the_earliest(h: Harness) {
    let worker = h.worker().await;
    let far = h.put(h.delayed(60 * MINUTE)).await;
    assert_eq!(due(&h, worker, h.queue).await.next_due, h.detail(far).await.job.run_at);
    let near = h.put(NewJob { priority: 9, ..h.delayed(10 * MINUTE) }).await;
    let near_at = h.detail(near).await.job.run_at;
    assert_eq!(due(&h, worker, h.queue).await.next_due, near_at);
    assert_eq!(due(&h, worker, h.other_queue).await.next_due, None, "the other queue has none");
    h.advance(11 * MINUTE);
    let poll = h.poll(worker).await;
    let row = poll.queues.iter().find(|q| q.queue == h.queue).unwrap();
    assert!(row.next_due.unwrap() <= poll.now, "due by now");
}

pub async fn a_running_job_is_not_due(h: Harness) {
    let worker = h.worker().await;
    h.put(h.job()).await;
    assert!(due(&h, worker, h.queue).await.next_due.is_some());
    let leased = h.claim_one(worker).await;
    assert_eq!(due(&h, worker, h.queue).await.next_due, None);
    h.settle(&leased, Outcome::Retry { after: Some(10 * MINUTE), error: "no".to_owned() }).await;
    assert_eq!(due(&h, worker, h.queue).await.next_due, h.detail(leased.id).await.job.run_at);
}

/// A poll does not report due jobs that the worker cannot run; otherwise the worker would claim in a loop.
pub async fn other_kinds_are_not_due(h: Harness) {
    let worker = h.worker().await;
    let before = h.put(NewJob { kind: h.second_kind, ..h.job() }).await;
    let only = [QueueKinds { queue: h.queue, kinds: vec![h.kind] }];
    let poll = h.store.poll(worker, &only).await.unwrap();
    assert_eq!(poll.queues.len(), 1, "only what was asked about");
    assert_eq!(poll.queues[0].next_due, None);
    let behind = h.put(h.delayed(MINUTE)).await;
    let poll = h.store.poll(worker, &only).await.unwrap();
    assert_eq!(poll.queues[0].next_due, h.detail(behind).await.job.run_at, "the one behind {before} is");
}

pub async fn suspects_are_reported_by_level(h: Harness) {
    h.put(h.job()).await;
    let first = h.worker().await;
    h.claim_one(first).await;
    h.lose(first).await;
    let worker = h.worker().await;
    let none = SuspectsDue::default();
    assert_eq!(due(&h, worker, h.queue).await.suspects, SuspectsDue { first: true, ..none });
    assert_eq!(due(&h, worker, h.other_queue).await.suspects, none);
    for expected in [SuspectsDue { second: true, ..none }, SuspectsDue { trial: true, ..none }] {
        h.suspect_dies().await;
        assert_eq!(due(&h, worker, h.queue).await.suspects, none, "it waits");
        h.advance(10 * MINUTE);
        let row = due(&h, worker, h.queue).await;
        assert_eq!((row.suspects, row.next_due), (expected, None));
    }
}

pub async fn live_settings_are_seen(h: Harness) {
    let worker = h.worker().await;
    let bounds = Some(Bounds { min: 2, max: 8 });
    let update = QueueUpdate {
        paused: Some(true),
        concurrency: Some(Live::Set(3)),
        bounds: Some(Live::Set(bounds)),
        ..QueueUpdate::default()
    };
    assert!(h.open().await.update_queue(h.queue, &update).await.unwrap());
    let row = due(&h, worker, h.queue).await;
    assert_eq!((row.paused, row.concurrency, row.bounds), (true, 3, bounds));
    let row = due(&h, worker, h.other_queue).await;
    assert_eq!((row.paused, row.concurrency, row.bounds), (false, 10, None));
    let update = QueueUpdate { paused: Some(false), ..QueueUpdate::default() };
    assert!(h.store.update_queue(h.queue, &update).await.unwrap());
    let row = due(&h, worker, h.queue).await;
    assert_eq!((row.paused, row.concurrency), (false, 3), "what was not named stays");
}

/// A worker polls limited kinds separately: jobs that wait for a limit must not make other kinds look due.
pub async fn each_set_of_kinds_has_its_own_answer(h: Harness) {
    let nowhere = QueueId(9_999);
    let ask = |kinds: &[KindId], queue| QueueKinds { queue, kinds: kinds.to_vec() };
    let asked = [
        ask(&[h.kind], h.queue),
        ask(&[h.other_kind], nowhere),
        ask(&[h.second_kind], h.queue),
        ask(&[h.other_kind], h.other_queue),
    ];
    let worker = h.worker().await;
    let second = h.put(NewJob { kind: h.second_kind, ..h.job() }).await;
    let first = h.put(h.delayed(10 * MINUTE)).await;
    let answer = |poll: &windlass_core::store::Poll| -> Vec<(usize, QueueId, Option<Time>, bool)> {
        poll.queues.iter().map(|q| (q.asked, q.queue, q.next_due, q.suspects.first)).collect()
    };
    let (first_at, second_at) = (h.detail(first).await.job.run_at, h.detail(second).await.job.run_at);
    let poll = h.store.poll(worker, &asked).await.unwrap();
    let expected =
        [(0, h.queue, first_at, false), (2, h.queue, second_at, false), (3, h.other_queue, None, false)];
    assert_eq!(answer(&poll), expected);
    h.claim_one(worker).await;
    h.lose(worker).await;
    let poll = h.store.poll(h.worker().await, &asked).await.unwrap();
    let suspects: Vec<bool> = poll.queues.iter().map(|q| q.suspects.first).collect();
    assert_eq!(suspects, [false, true, false], "only those that may claim it hear of a suspect");
}

pub async fn limits_in_force_are_reported(h: Harness) {
    let worker = h.worker().await;
    assert!(h.poll(worker).await.limits.is_empty());
    let rate = |text: &str| Some(text.parse().unwrap());
    let browser = |permits| Resource::new("browser", permits);
    let kinds = [
        KindSpec { rate: rate("5/s"), ..KindSpec::new(KIND, QUEUE) },
        KindSpec { resource: Some(browser(3)), ..KindSpec::new(OTHER_KIND, OTHER_QUEUE) },
    ];
    h.open().await.sync_registry(&[], &kinds, None).await.unwrap();
    let permits = |permits| Some(Permits { resource: "browser".to_owned(), permits });
    let first = KindLimits { kind: h.kind, rate: rate("5/s"), resource: None };
    let other = KindLimits { kind: h.other_kind, rate: None, resource: permits(3) };
    let mut both = [first.clone(), other.clone()];
    both.sort_by_key(|of| of.kind);
    assert_eq!(h.poll(worker).await.limits, both);
    let only = [QueueKinds { queue: h.queue, kinds: vec![h.kind, h.second_kind] }];
    assert_eq!(h.store.poll(worker, &only).await.unwrap().limits, [first], "of the kinds asked about");
    assert!(h.store.poll(worker, &[]).await.unwrap().limits.is_empty());
    let set = (Some(Live::Set(rate("9/m"))), Some(Live::Set(7)));
    let update = KindUpdate { rate: set.0, permits: set.1, ..KindUpdate::default() };
    assert!(h.open().await.update_kind(h.other_kind, &update).await.unwrap());
    let update = KindUpdate { rate: Some(Live::Set(None)), ..KindUpdate::default() };
    assert!(h.store.update_kind(h.kind, &update).await.unwrap());
    let other = KindLimits { rate: rate("9/m"), resource: permits(7), ..other };
    assert_eq!(h.poll(worker).await.limits, [other], "a lifted rate is no limit");
}

/// The enqueuing handle and the handle of another process are both woken.
pub async fn an_enqueue_wakes_every_handle(h: Harness) {
    let second = h.open().await;
    let wakes = [Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new()))];
    for (store, wakes) in [&h.store, &second].into_iter().zip(&wakes) {
        let wakes = wakes.clone();
        store.on_wake(Box::new(move |wake| {
            wakes.lock().unwrap().push(wake);
            true
        }));
    }
    // A wake-up may be lost while a listener connects, so jobs are enqueued until both handles were woken.
    for (n, wakes) in wakes.iter().enumerate() {
        wait_until(&format!("a wake of handle {n}"), Duration::from_secs(20), || async {
            h.put(h.job()).await;
            Seen::when(wakes.lock().unwrap().clone(), |all| all.iter().any(|wake| wake.concerns(h.queue)))
        })
        .await;
    }
}

/// Two workers may share a handle. Each gets every wake-up, and a listener that has ended gets none.
pub async fn an_enqueue_wakes_every_listener(h: Harness) {
    let wakes: [Arc<Mutex<Vec<Wake>>>; 3] = Default::default();
    for (n, wakes) in wakes.iter().enumerate() {
        let wakes = wakes.clone();
        h.store.on_wake(Box::new(move |wake| {
            wakes.lock().unwrap().push(wake);
            n != 2
        }));
    }
    h.put(h.job()).await;
    h.put(NewJob { queue: h.other_queue, kind: h.other_kind, ..h.job() }).await;
    for (n, wakes) in wakes[..2].iter().enumerate() {
        wait_until(&format!("both wakes of listener {n}"), Duration::from_secs(20), || async {
            let both = [h.queue, h.other_queue].map(Wake::Due);
            Seen::when(wakes.lock().unwrap().clone(), |all| both.iter().all(|wake| all.contains(wake)))
        })
        .await;
    }
    assert_eq!(wakes[2].lock().unwrap().len(), 1, "it ended after the first wake-up");
}
