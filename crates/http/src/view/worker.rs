//! A worker process as the database knows it.

use windlass_core::QueueId;
use windlass_core::store::{ResourceUse, WorkerRow};
use windlass_engine::Catalog;
use windlass_pack::shape;

use super::{Id, Stamp};

shape! {
    /// One incarnation of a worker process.
    pub struct WorkerView as "Worker" {
        pub id: Id,
        /// Host and process, for people.
        pub label: String,
        pub queues: Vec<String>,
        pub started_at: Stamp,
        pub heartbeat_at: Stamp,
        pub running: u64,
        /// Jobs it runs at once, queue by queue, as they are now.
        pub concurrency: Vec<SlotsView>,
        /// What it has few of.
        pub resources: Vec<ResourceView>,
    }
}

shape! {
    /// Jobs of one queue that a worker runs at once.
    pub struct SlotsView as "WorkerConcurrency" {
        pub queue: String,
        pub concurrency: u32,
    }
}

shape! {
    /// A resource of one worker.
    pub struct ResourceView as "WorkerResource" {
        pub resource: String,
        pub permits: u32,
        /// Jobs that hold one, from their claim until they are settled.
        pub in_use: u64,
        pub free: u64,
    }
}

impl From<&ResourceUse> for ResourceView {
    fn from(of: &ResourceUse) -> ResourceView {
        ResourceView {
            resource: of.resource.clone(),
            permits: of.permits,
            in_use: of.in_use,
            free: u64::from(of.permits).saturating_sub(of.in_use),
        }
    }
}

impl WorkerView {
    pub fn new(worker: &WorkerRow, catalog: &Catalog) -> WorkerView {
        let queues = worker.queues.iter().filter_map(|id| catalog.queue(*id));
        let slots = |(queue, concurrency): &(QueueId, u32)| {
            let queue = catalog.queue(*queue)?.spec.name.clone();
            Some(SlotsView { queue, concurrency: *concurrency })
        };
        WorkerView {
            id: Id(worker.id.0),
            label: worker.label.clone(),
            queues: queues.map(|queue| queue.spec.name.clone()).collect(),
            started_at: Stamp(worker.started_at),
            heartbeat_at: Stamp(worker.heartbeat_at),
            running: worker.running,
            concurrency: worker.concurrency.iter().filter_map(slots).collect(),
            resources: worker.resources.iter().map(ResourceView::from).collect(),
        }
    }
}
