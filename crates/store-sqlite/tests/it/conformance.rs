use std::sync::Arc;

use windlass_core::Store;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_testkit::conformance::{self, Harness};

async fn harness() -> Harness {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("windlass.db");
    let open = move || {
        let path = path.clone();
        async move { Arc::new(SqliteStore::open(path, SqliteOptions::default()).unwrap()) as Arc<dyn Store> }
    };
    Harness::new(open, folder).await
}

conformance::suite!(harness);
