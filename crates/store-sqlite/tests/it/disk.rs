//! A full disk: nothing half-written, and work again when space is freed.

use windlass_core::store::{Action, JobFilter};
use windlass_core::{Store, StoreError};
use windlass_store_sqlite::SqliteOptions;

use crate::setup::Setup;

/// A page limit stands in for the end of the disk: SQLite answers both with SQLITE_FULL.
#[tokio::test]
async fn full_is_said_and_heals() {
    let setup = Setup::with(SqliteOptions { max_pages: Some(400), ..SqliteOptions::default() }).await;
    let mut accepted = 0;
    let error = loop {
        match setup.store.enqueue(&vec![setup.job(); 100]).await {
            Ok(jobs) => accepted += jobs.len() as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }) && error.is_transient(), "{error:?}");
    assert!(accepted > 0);
    assert_eq!(setup.store.count(&JobFilter::default()).await.unwrap(), accepted, "all or nothing");
    // A few at a time: what a change writes must fit before what it frees can be used.
    let all = JobFilter::default();
    for _ in 0..30 {
        for action in [Action::Cancel, Action::Delete] {
            assert_eq!(setup.store.act(&all, action, 20, None).await.unwrap().done, 20);
        }
    }
    setup.store.enqueue(&vec![setup.job(); 100]).await.unwrap();
}
