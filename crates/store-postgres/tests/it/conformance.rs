//! The conformance suite of every store.

use std::sync::Arc;

use windlass_core::Store;
use windlass_testkit::conformance::{Harness, suite};

use crate::place::{drop_schema, fresh_schema, open};

/// Dropped after the runtime of the case has ended, so it needs its own.
pub(crate) struct Schema(pub(crate) String);

impl Drop for Schema {
    fn drop(&mut self) {
        let schema = std::mem::take(&mut self.0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(drop_schema(&schema));
    }
}

async fn harness() -> Harness {
    let schema = fresh_schema();
    let name = schema.clone();
    let handle = move || {
        let name = name.clone();
        async move { Arc::new(open(&name).await) as Arc<dyn Store> }
    };
    Harness::new(handle, Schema(schema)).await
}

suite!(harness);
