//! The result of a bulk action.

use windlass_core::store::Bulk;
use windlass_pack::shape;

shape! {
    /// The result of a bulk action.
    pub struct BulkView as "BulkResult" {
        pub done: u64,
        /// Running jobs whose worker was asked to stop.
        pub requested: u64,
        /// Retried jobs whose unique key is held by a waiting job.
        pub superseded: u64,
        /// Matched, but in a state that does not allow the action.
        pub skipped: u64,
        /// Given by id but not found.
        pub missing: u64,
    }
}

impl BulkView {
    pub fn new(bulk: &Bulk, missing: u64) -> BulkView {
        let Bulk { done, requested, superseded, skipped } = *bulk;
        BulkView { done, requested, superseded, skipped, missing }
    }
}
