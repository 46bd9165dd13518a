//! What an action on many jobs came to.

use windlass_core::store::Bulk;
use windlass_pack::shape;

shape! {
    /// What an action on many jobs came to.
    pub struct BulkView as "BulkResult" {
        pub done: u64,
        /// Running jobs whose worker was asked to stop.
        pub requested: u64,
        /// Replayed jobs that met a waiting twin.
        pub superseded: u64,
        /// Matched, but in a state the action does not fit.
        pub skipped: u64,
        /// Named by id and not there.
        pub missing: u64,
    }
}

impl BulkView {
    pub fn new(bulk: &Bulk, missing: u64) -> BulkView {
        let Bulk { done, requested, superseded, skipped } = *bulk;
        BulkView { done, requested, superseded, skipped, missing }
    }
}
