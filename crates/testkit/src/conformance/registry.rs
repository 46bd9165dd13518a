//! Queues and kinds: synced from code at each start, overridden by live values of operators.

use std::time::Duration;

use windlass_core::scale::Bounds;
use windlass_core::store::{
    Backlog, KindMoved, KindUpdate, Live, LiveOverride, QueueState, QueueUpdate, StoreError,
};
use windlass_core::{Backoff, KindId, KindSpec, NewJob, QueueId, QueueSpec, Resource};

use super::limit::filled;
use super::{Harness, KIND, OTHER_KIND, OTHER_QUEUE, QUEUE, SECOND_KIND};

async fn queue(h: &Harness, id: QueueId) -> QueueState {
    h.store.queues().await.unwrap().into_iter().find(|q| q.id == id).expect("queue is there")
}

fn specs() -> (Vec<QueueSpec>, Vec<KindSpec>) {
    let queues = vec![QueueSpec::named(QUEUE), QueueSpec::named(OTHER_QUEUE)];
    let kinds = vec![
        KindSpec::new(KIND, QUEUE),
        KindSpec::new(SECOND_KIND, QUEUE),
        KindSpec::new(OTHER_KIND, OTHER_QUEUE),
    ];
    (queues, kinds)
}

pub async fn specs_are_stored_and_read(h: Harness) {
    let wanted = filled(QueueSpec {
        priority: 3,
        cadence: Duration::from_millis(1_500),
        sla: None,
        owner: "us".to_owned(),
        colour: "red".to_owned(),
        resource: Some(Resource::new("slot", 6)),
        ..QueueSpec::named("FULL")
    });
    let kind = filled(KindSpec {
        priority: Some(1),
        max_attempts: 11,
        timeout: None,
        backoff: Backoff { base: Duration::from_millis(250), cap: Duration::from_secs(9) },
        resource: Some(Resource::new("browser", 2)),
        at_most_once: true,
        description: "does all".to_owned(),
        ..KindSpec::new("full", "FULL")
    });
    let (queues, kinds) = (std::slice::from_ref(&wanted), std::slice::from_ref(&kind));
    h.store.sync_registry(queues, kinds, None).await.unwrap();
    let second = h.open().await;
    let stored = second.queues().await.unwrap().into_iter().find(|q| q.spec.name == "FULL").unwrap();
    assert_eq!(stored.spec, wanted);
    let stored_kind = second.kinds().await.unwrap().into_iter().find(|(_, _, k)| k.name == "full").unwrap();
    assert_eq!((stored_kind.1, stored_kind.2), (stored.id, kind));
    assert_eq!(second.kinds().await.unwrap().len(), 4, "what was not named stays");
}

pub async fn sync_is_idempotent(h: Harness) {
    let picture = async || (h.store.queues().await.unwrap(), h.store.kinds().await.unwrap());
    let before = format!("{:?}", picture().await);
    let (queues, kinds) = specs();
    for _ in 0..2 {
        h.store.sync_registry(&queues, &kinds, None).await.unwrap();
        assert_eq!(format!("{:?}", picture().await), before);
    }
}

pub async fn two_processes_sync_at_once(h: Harness) {
    let second = h.open().await;
    for round in 0..10 {
        let queues = [QueueSpec::named(&format!("Q{round}"))];
        let kinds = [KindSpec::new(&format!("k{round}"), &queues[0].name)];
        let (one, two) = tokio::join!(
            h.store.sync_registry(&queues, &kinds, None),
            second.sync_registry(&queues, &kinds, None)
        );
        one.unwrap();
        two.unwrap();
    }
    assert_eq!(h.store.queues().await.unwrap().len(), 2 + 10);
    assert_eq!(second.kinds().await.unwrap().len(), 3 + 10);
}

pub async fn changed_specs_are_stored(h: Harness) {
    let (mut queues, mut kinds) = specs();
    queues[0].owner = "them".to_owned();
    queues[0].concurrency = 33;
    kinds[0].max_attempts = 2;
    h.store.sync_registry(&queues, &kinds, None).await.unwrap();
    assert_eq!(queue(&h, h.queue).await.spec, queues[0]);
    let stored = h.store.kinds().await.unwrap().into_iter().find(|(id, _, _)| *id == h.kind).unwrap();
    assert_eq!(stored, (h.kind, h.queue, kinds[0].clone()));
}

pub async fn live_settings_survive_a_sync(h: Harness) {
    let update = QueueUpdate {
        paused: Some(true),
        concurrency: Some(Live::Set(3)),
        bounds: Some(Live::Set(Some(Bounds { min: 2, max: 5 }))),
        depth_cap: Some(Live::Set(Some(7))),
        ..QueueUpdate::default()
    };
    assert!(h.store.update_queue(h.queue, &update).await.unwrap());
    let (mut queues, kinds) = specs();
    queues[0].bounds = Some(Bounds { min: 1, max: 99 });
    queues[0].owner = "them".to_owned();
    queues[0].concurrency = 33;
    queues[0].depth_cap = Some(99);
    h.store.sync_registry(&queues, &kinds, None).await.unwrap();
    let state = queue(&h, h.queue).await;
    assert!(state.paused);
    assert_eq!((state.spec.concurrency, state.spec.depth_cap), (3, Some(7)));
    assert_eq!(state.spec.bounds, Some(Bounds { min: 2, max: 5 }));
    assert_eq!(state.spec.owner, "them", "values that are not live follow the configuration");
    let lift = QueueUpdate { depth_cap: Some(Live::Set(None)), ..QueueUpdate::default() };
    assert!(h.store.update_queue(h.queue, &lift).await.unwrap());
    let state = queue(&h, h.queue).await;
    assert_eq!((state.spec.depth_cap, state.spec.concurrency, state.paused), (None, 3, true));
    h.store.sync_registry(&queues, &kinds, None).await.unwrap();
    assert_eq!(queue(&h, h.queue).await.spec.depth_cap, None, "a lifted cap stays lifted");
}

pub async fn an_operator_can_remove_configured_bounds(h: Harness) {
    let (mut queues, kinds) = specs();
    queues[0].bounds = Some(Bounds { min: 4, max: 9 });
    h.store.sync_registry(&queues, &kinds, None).await.unwrap();
    let worker = h.worker().await;
    let bounds = async |bounds| {
        let update = QueueUpdate { bounds: Some(bounds), ..QueueUpdate::default() };
        assert!(h.store.update_queue(h.queue, &update).await.unwrap());
        h.store.sync_registry(&queues, &kinds, None).await.unwrap();
        let shown = queue(&h, h.queue).await.spec.bounds;
        let reported = h.poll(worker).await.queues.iter().find(|q| q.queue == h.queue).unwrap().bounds;
        assert_eq!(shown, reported);
        shown
    };
    let other = Some(Bounds { min: 1, max: 2 });
    assert_eq!(bounds(Live::Set(other)).await, other);
    assert_eq!(bounds(Live::Set(None)).await, None, "removed, those of the configuration too");
    assert_eq!(bounds(Live::Configured).await, queues[0].bounds);
}

pub async fn every_live_value_can_be_removed(h: Harness) {
    let (mut queues, mut kinds) = specs();
    queues[0].depth_cap = Some(99);
    queues[0].resource = Some(Resource::new("slot", 3));
    kinds.iter_mut().find(|kind| kind.name == KIND).unwrap().rate = Some("7/s".parse().unwrap());
    h.store.sync_registry(&queues, &kinds, None).await.unwrap();
    let before = (queue(&h, h.queue).await.spec, h.store.kinds().await.unwrap());
    assert_eq!(h.store.live_overrides().await.unwrap(), []);
    let set = QueueUpdate {
        concurrency: Some(Live::Set(3)),
        bounds: Some(Live::Set(Some(Bounds { min: 2, max: 5 }))),
        permits: Some(Live::Set(8)),
        depth_cap: Some(Live::Set(None)),
        global_concurrency: Some(Live::Set(Some(6))),
        boost_after: Some(Live::Set(None)),
        ..QueueUpdate::default()
    };
    assert!(h.store.update_queue(h.queue, &set).await.unwrap());
    let of_kind = KindUpdate {
        rate: Some(Live::Set(None)),
        key_concurrency: Some(Live::Set(2)),
        ..KindUpdate::default()
    };
    assert!(h.store.update_kind(h.kind, &of_kind).await.unwrap());
    let reported: Vec<String> = h.store.live_overrides().await.unwrap().iter().map(said).collect();
    let expected = [
        format!("queues.{QUEUE}.concurrency 3 not {}", before.0.concurrency),
        format!("queues.{QUEUE}.concurrency_min and _max 2 to 5 not none"),
        format!("queues.{QUEUE}.global_concurrency 6 not none"),
        format!("queues.{QUEUE}.depth_cap none not 99"),
        format!("queues.{QUEUE}.boost_after none not 10m"),
        format!("kinds.{KIND}.rate none not 7/s"),
        format!("kinds.{KIND}.key_concurrency 2 not 1"),
        "permits of slot 8 not 3".to_owned(),
    ];
    assert_eq!(reported, expected);
    let back = QueueUpdate {
        concurrency: Some(Live::Configured),
        bounds: Some(Live::Configured),
        permits: Some(Live::Configured),
        depth_cap: Some(Live::Configured),
        global_concurrency: Some(Live::Configured),
        boost_after: Some(Live::Configured),
        ..QueueUpdate::default()
    };
    assert!(h.store.update_queue(h.queue, &back).await.unwrap());
    let of_kind = KindUpdate {
        rate: Some(Live::Configured),
        permits: Some(Live::Configured),
        key_concurrency: Some(Live::Configured),
        ..KindUpdate::default()
    };
    assert!(h.store.update_kind(h.kind, &of_kind).await.unwrap());
    assert_eq!((queue(&h, h.queue).await.spec, h.store.kinds().await.unwrap()), before);
    assert_eq!(h.store.live_overrides().await.unwrap(), []);
}

fn said(of: &LiveOverride) -> String {
    format!("{} {} not {}", of.key, of.live, of.configured)
}

pub async fn a_kind_cannot_change_its_queue(h: Harness) {
    let (mut queues, mut kinds) = specs();
    for kind in kinds.iter_mut().filter(|kind| kind.queue == QUEUE) {
        kind.queue = OTHER_QUEUE.to_owned();
    }
    queues[0].owner = "them".to_owned();
    match h.store.sync_registry(&queues, &kinds, None).await {
        Err(StoreError::KindsMoved { mut moved }) => {
            moved.sort_by(|a, b| a.kind.cmp(&b.kind));
            let each = |kind: &str| KindMoved {
                kind: kind.to_owned(),
                stored: QUEUE.to_owned(),
                wanted: OTHER_QUEUE.to_owned(),
            };
            let mut expected = [each(KIND), each(SECOND_KIND)];
            expected.sort_by(|a, b| a.kind.cmp(&b.kind));
            assert_eq!(moved, expected, "all of them, and no other");
        }
        other => panic!("expected KindsMoved, got {other:?}"),
    }
    assert_eq!(queue(&h, h.queue).await.spec.owner, "", "a refused sync changes nothing");
}

pub async fn unknown_ids(h: Harness) {
    let update = QueueUpdate { paused: Some(true), ..QueueUpdate::default() };
    let nowhere = QueueId(9_999);
    assert!(!h.store.update_queue(nowhere, &update).await.unwrap());
    assert_eq!(h.store.depth(nowhere, 10).await.unwrap(), 0);
    h.put(h.job()).await;
    let mut ask = h.ask(h.worker().await, 10);
    ask.queue = nowhere;
    assert!(h.store.claim(&ask).await.unwrap().is_empty());
    ask = windlass_core::store::Claim { queue: h.queue, kinds: vec![KindId(9_999)], ..ask };
    assert!(h.store.claim(&ask).await.unwrap().is_empty());
}

pub async fn depth_counts_waiting_jobs_up_to_the_cap(h: Harness) {
    assert_eq!(h.store.depth(h.queue, 10).await.unwrap(), 0);
    h.put_plain(6).await;
    h.put(h.delayed(Duration::from_secs(600))).await;
    h.claim(h.worker().await, 2).await;
    assert_eq!(h.store.depth(h.queue, 100).await.unwrap(), 5, "due and scheduled, not running");
    assert_eq!(h.store.depth(h.queue, 3).await.unwrap(), 3);
    assert_eq!(h.store.depth(h.other_queue, 100).await.unwrap(), 0);
}

pub async fn figures_equal_the_counted_rows(h: Harness) {
    let idle = queue(&h, h.queue).await;
    assert_eq!((idle.running, idle.depth, idle.scheduled, idle.oldest), (0, 0, 0, None));
    h.put_plain(5).await;
    h.store.enqueue(&vec![h.delayed(Duration::from_secs(3_600)); 3]).await.unwrap();
    h.put(NewJob { kind: h.other_kind, queue: h.other_queue, ..h.job() }).await;
    h.claim(h.worker().await, 2).await;
    h.advance(Duration::from_secs(600));
    let busy = queue(&h, h.queue).await;
    assert_eq!((busy.running, busy.depth, busy.scheduled), (2, 3, 3));
    let oldest = busy.oldest.unwrap().as_secs();
    assert!((600..660).contains(&oldest), "{oldest}");
    let other = queue(&h, h.other_queue).await;
    assert_eq!((other.running, other.depth, other.scheduled), (0, 1, 0));
}

/// Blocked jobs are not due; a job that was offered a slot is.
pub async fn the_backlog_counts_jobs_with_an_offered_slot(h: Harness) {
    let worker = h.worker().await;
    let jobs = |keys: usize| -> Vec<NewJob> {
        let key = |n| Some(format!("key {n}"));
        (0..keys).map(|n| NewJob { concurrency_key: key(n), ..h.job() }).collect()
    };
    for _ in 0..3 {
        h.store.enqueue(&jobs(6)).await.unwrap();
    }
    let running = h.claim(worker, 10).await;
    assert_eq!(running.len(), 6);
    assert_eq!(h.store.backlog(h.queue, 100).await.unwrap().due, 0);
    h.put_plain(1).await;
    for job in &running[..4] {
        h.done(job).await;
    }
    assert_eq!(h.store.backlog(h.queue, 100).await.unwrap().due, 5);
    assert_eq!(h.store.backlog(h.queue, 3).await.unwrap().due, 3);
}

pub async fn the_backlog_counts_due_jobs(h: Harness) {
    let none = Backlog { due: 0, workers: 0 };
    assert_eq!(h.store.backlog(h.queue, 10).await.unwrap(), none);
    for priority in [0, 5, 10] {
        h.store.enqueue(&vec![NewJob { priority, ..h.job() }; 3]).await.unwrap();
    }
    h.store.enqueue(&vec![h.delayed(Duration::from_secs(3_600)); 4]).await.unwrap();
    let worker = h.worker().await;
    h.claim(worker, 1).await;
    assert_eq!(h.store.backlog(h.queue, 100).await.unwrap(), Backlog { due: 8, workers: 1 });
    assert_eq!(h.store.backlog(h.queue, 5).await.unwrap().due, 5);
    h.advance(Duration::from_secs(4_000));
    assert_eq!(h.store.backlog(h.queue, 100).await.unwrap().due, 12);
    h.store.retire_worker(worker).await.unwrap();
    assert_eq!(h.store.backlog(h.other_queue, 100).await.unwrap(), none);
}
