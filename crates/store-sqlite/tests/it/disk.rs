//! A full disk: no partial writes, and writes work again once space is free.

use windlass_core::store::{Action, JobFilter};
use windlass_core::{Store, StoreError};
use windlass_store_sqlite::SqliteOptions;

use crate::setup::Setup;

/// A page limit simulates a full disk: SQLite returns SQLITE_FULL for both.
#[tokio::test]
async fn a_full_disk_is_reported_and_recovers() {
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
    // A few at a time: a change has to fit before the space it frees can be used.
    let all = JobFilter::default();
    for _ in 0..30 {
        for action in [Action::Cancel, Action::Delete] {
            assert_eq!(setup.store.act(&all, action, 20, None).await.unwrap().done, 20);
        }
    }
    setup.store.enqueue(&vec![setup.job(); 100]).await.unwrap();
}
