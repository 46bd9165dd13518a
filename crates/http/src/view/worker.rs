//! A worker process as the database knows it.

use windlass_core::store::WorkerRow;
use windlass_engine::Catalog;

use super::{Id, Stamp};
use crate::shape::shape;

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
    }
}

impl WorkerView {
    pub fn new(worker: &WorkerRow, catalog: &Catalog) -> WorkerView {
        let queues = worker.queues.iter().filter_map(|id| catalog.queue(*id));
        WorkerView {
            id: Id(worker.id.0),
            label: worker.label.clone(),
            queues: queues.map(|queue| queue.spec.name.clone()).collect(),
            started_at: Stamp(worker.started_at),
            heartbeat_at: Stamp(worker.heartbeat_at),
            running: worker.running,
        }
    }
}
