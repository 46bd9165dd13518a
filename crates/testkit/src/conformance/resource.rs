//! Resources: permits by configuration and by operators, and permits in use.

use windlass_core::store::{KindUpdate, Live, QueueUpdate, ResourceUse, WorkerLimits};
use windlass_core::{KindSpec, NewJob, Outcome, QueueSpec, Resource, WorkerId};

use super::{Harness, KIND, OTHER_KIND, OTHER_QUEUE, QUEUE, SECOND_KIND};

const BROWSER: &str = "browser";

fn needs(kind: &str, queue: &str, permits: Option<u32>) -> KindSpec {
    let resource = Some(Resource { name: BROWSER.to_owned(), permits });
    KindSpec { resource, ..KindSpec::new(kind, queue) }
}

async fn of_kind(h: &Harness, name: &str) -> Option<Resource> {
    let kinds = h.store.kinds().await.unwrap();
    kinds.into_iter().find(|(_, _, kind)| kind.name == name).unwrap().2.resource
}

async fn uses(h: &Harness, worker: WorkerId) -> Vec<ResourceUse> {
    h.store.workers().await.unwrap().into_iter().find(|row| row.id == worker).unwrap().resources
}

pub async fn kinds_share_the_permits_of_a_resource(h: Harness) {
    h.store.sync_registry(&[], &[needs(OTHER_KIND, OTHER_QUEUE, None)], None).await.unwrap();
    assert_eq!(of_kind(&h, OTHER_KIND).await, Some(Resource::new(BROWSER, 1)), "one at first");
    h.store.sync_registry(&[], &[needs(KIND, QUEUE, Some(4))], None).await.unwrap();
    h.store.sync_registry(&[], &[needs(OTHER_KIND, OTHER_QUEUE, None)], None).await.unwrap();
    for kind in [KIND, OTHER_KIND] {
        assert_eq!(of_kind(&h, kind).await, Some(Resource::new(BROWSER, 4)), "{kind}");
    }
    assert_eq!(of_kind(&h, SECOND_KIND).await, None);
    h.store.sync_registry(&[], &[KindSpec::new(KIND, QUEUE)], None).await.unwrap();
    assert_eq!(of_kind(&h, KIND).await, None, "a resource that is no longer configured is removed");
}

pub async fn a_queues_resource_applies_to_its_kinds(h: Harness) {
    let queue = QueueSpec { resource: Some(Resource::new("slot", 3)), ..QueueSpec::named(QUEUE) };
    h.store
        .sync_registry(std::slice::from_ref(&queue), &[needs(SECOND_KIND, QUEUE, Some(2))], None)
        .await
        .unwrap();
    assert_eq!(of_kind(&h, KIND).await, queue.resource);
    assert_eq!(of_kind(&h, SECOND_KIND).await, Some(Resource::new(BROWSER, 2)), "its own comes first");
    let states = h.store.queues().await.unwrap();
    assert_eq!(states.into_iter().find(|q| q.id == h.queue).unwrap().spec.resource, queue.resource);
}

pub async fn live_permits_survive_a_sync(h: Harness) {
    let queue = QueueSpec { resource: Some(Resource::new("slot", 3)), ..QueueSpec::named(QUEUE) };
    let sync = async |permits| {
        let kinds = [needs(SECOND_KIND, QUEUE, Some(permits))];
        h.store.sync_registry(std::slice::from_ref(&queue), &kinds, None).await.unwrap();
    };
    sync(2).await;
    let update = QueueUpdate { permits: Some(Live::Set(9)), ..QueueUpdate::default() };
    assert!(h.store.update_queue(h.queue, &update).await.unwrap());
    let update = KindUpdate { permits: Some(Live::Set(8)), ..KindUpdate::default() };
    assert!(h.store.update_kind(h.second_kind, &update).await.unwrap());
    sync(5).await;
    assert_eq!(of_kind(&h, KIND).await, Some(Resource::new("slot", 9)));
    assert_eq!(of_kind(&h, SECOND_KIND).await, Some(Resource::new(BROWSER, 8)));
    let update = QueueUpdate { permits: Some(Live::Set(7)), ..QueueUpdate::default() };
    assert!(
        h.store.update_queue(h.other_queue, &update).await.unwrap(),
        "a queue without one has nothing to set"
    );
    assert_eq!(of_kind(&h, KIND).await, Some(Resource::new("slot", 9)));
}

/// The reported number equals the leases at every step of a job's life.
pub async fn permits_in_use_equal_the_leases(h: Harness) {
    h.store.sync_registry(&[], &[needs(SECOND_KIND, QUEUE, Some(3))], None).await.unwrap();
    let (worker, other) = (h.worker().await, h.worker().await);
    assert!(uses(&h, worker).await.is_empty(), "it has said nothing yet");
    let limits = WorkerLimits {
        concurrency: vec![(h.queue, 4), (h.other_queue, 10)],
        resources: vec![BROWSER.to_owned(), "unheard of".to_owned()],
    };
    for worker in [worker, other] {
        assert!(h.store.report_limits(worker, &limits).await.unwrap());
    }
    let rows = h.store.workers().await.unwrap();
    assert_eq!(rows[0].concurrency, limits.concurrency);
    let used = |in_use| vec![ResourceUse { resource: BROWSER.to_owned(), permits: 3, in_use }];
    assert_eq!(uses(&h, worker).await, used(0));
    h.put_plain(4).await;
    let second = NewJob { kind: h.second_kind, priority: 9, ..h.job() };
    h.store.enqueue(&vec![second; 3]).await.unwrap();
    let leased = h.claim(worker, 6).await;
    assert_eq!(uses(&h, worker).await, used(2), "of six leases two need it");
    h.claim(other, 6).await;
    assert_eq!((uses(&h, worker).await, uses(&h, other).await), (used(2), used(1)));
    h.done(&leased[5]).await;
    assert_eq!(uses(&h, worker).await, used(1));
    h.settle(&leased[4], Outcome::snooze(std::time::Duration::from_secs(60))).await;
    assert_eq!(uses(&h, worker).await, used(0));
}

pub async fn a_dead_worker_reports_nothing(h: Harness) {
    let worker = h.worker().await;
    h.lose(worker).await;
    assert!(!h.store.report_limits(worker, &WorkerLimits::default()).await.unwrap());
}
