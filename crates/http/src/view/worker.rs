//! A worker process.

use windlass_core::QueueId;
use windlass_core::store::{ResourceUse, WorkerRow};
use windlass_engine::Catalog;
use windlass_pack::shape;

use super::{Id, Stamp};

shape! {
    /// One run of a worker process.
    pub struct WorkerView as "Worker" {
        pub id: Id,
        /// Host and process id, for people.
        pub label: String,
        pub queues: Vec<String>,
        pub started_at: Stamp,
        pub heartbeat_at: Stamp,
        pub running: u64,
        /// Current concurrency per queue.
        pub concurrency: Vec<SlotsView>,
        /// Resources it has permits for.
        pub resources: Vec<ResourceView>,
    }
}

shape! {
    /// Concurrency of a worker for one queue.
    pub struct SlotsView as "WorkerConcurrency" {
        pub queue: String,
        pub concurrency: u32,
    }
}

shape! {
    /// A worker's use of a resource.
    pub struct ResourceView as "WorkerResource" {
        pub resource: String,
        pub permits: u32,
        /// Permits held by jobs, from claim to settlement.
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
