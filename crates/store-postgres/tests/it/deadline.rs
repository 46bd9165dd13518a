//! Every call has a deadline: a lock that is never released, or an exhausted pool, ends in a clear error within the
//! configured time.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use windlass_core::store::{KindUpdate, QueueUpdate};
use windlass_core::{KindId, KindSpec, QueueId, QueueSpec, Store, StoreError};
use windlass_store_postgres::Options;

use crate::place::{Place, open_with, server};

const DEADLINE: Duration = Duration::from_millis(300);
/// A busy machine may need extra time.
const IN_TIME: Duration = Duration::from_secs(10);

async fn assert_busy<T: std::fmt::Debug>(op: &str, call: impl Future<Output = Result<T, StoreError>>) {
    let begun = Instant::now();
    let ended = tokio::time::timeout(IN_TIME, call).await.unwrap_or_else(|_| panic!("{op} still waits"));
    assert!(begun.elapsed() >= DEADLINE / 2, "{op} did not wait for the lock: {ended:?}");
    match ended {
        Err(error @ StoreError::Busy { .. }) => {
            assert!(error.is_transient(), "{op}: workers retry it");
            let text = error.chain();
            assert!(text.contains("in time") && text.contains("statement timeout"), "{op}: {text}");
        }
        other => panic!("{op}: {other:?}"),
    }
}

/// The store's statements have the timeout [`DEADLINE`], and another session holds every table they need.
pub(crate) async fn a_stuck_lock_ends_in_time(store: &dyn Store, schema: &str) {
    let mut other = PgConnection::connect(&server()).await.unwrap();
    let tables =
        ["queues", "kinds", "ready", "claims", "workers", "rates"].map(|table| format!("{schema}.{table}"));
    let lock = format!("begin; lock table {} in access exclusive mode", tables.join(", "));
    other.execute(AssertSqlSafe(lock)).await.unwrap();
    assert_busy("list queues", store.queues()).await;
    assert_busy("register", store.sync_registry(&[QueueSpec::named("Q")], &[KindSpec::new("k", "Q")], None))
        .await;
    let pause = QueueUpdate { paused: Some(true), ..QueueUpdate::default() };
    assert_busy("change a queue", store.update_queue(QueueId(1), &pause)).await;
    assert_busy("change a kind", store.update_kind(KindId(1), &KindUpdate::default())).await;
    assert_busy("lease tokens", store.lease_tokens(KindId(1), 1, 0)).await;
    assert_busy("list workers", store.workers()).await;
    other.execute("rollback").await.unwrap();
    store.queues().await.unwrap();
}

#[tokio::test]
async fn an_exhausted_pool_ends_in_a_clear_error() {
    let place = Place::new().await;
    let acquire_timeout = Duration::from_secs(1);
    let store = open_with(
        &place.schema,
        Options { pool_size: 2, notify: false, acquire_timeout, ..Options::default() },
    )
    .await;
    let held = (store.hold_snapshot().await.unwrap(), store.hold_snapshot().await.unwrap());
    let begun = Instant::now();
    let error = tokio::time::timeout(IN_TIME, store.queues()).await.expect("it still waits").unwrap_err();
    assert!(begun.elapsed() >= acquire_timeout / 2, "{error:?}");
    assert!(matches!(error, StoreError::Unavailable { .. }) && error.is_transient(), "{error:?}");
    let text = error.chain();
    assert!(text.contains("all connections of the pool are in use"), "{text}");
    drop(held);
    store.queues().await.unwrap();
    store.close().await;
    place.end().await;
}

#[tokio::test]
async fn a_stuck_lock_ends_in_a_clear_error() {
    let place = Place::new().await;
    let store = open_with(&place.schema, Options { statement_timeout: DEADLINE, ..Options::default() }).await;
    a_stuck_lock_ends_in_time(&store, &place.schema).await;
    place.put(1).await;
    let worker = place.worker().await;
    let mut other = PgConnection::connect(&server()).await.unwrap();
    let lock = format!("begin; lock table {}.ready in access exclusive mode", place.schema);
    other.execute(AssertSqlSafe(lock)).await.unwrap();
    assert_busy("claim", store.claim(&place.claim(worker, 5))).await;
    assert_busy("poll", store.poll(worker, &place.served())).await;
    assert_busy("enqueue", store.enqueue(&[place.job()])).await;
    other.execute("rollback").await.unwrap();
    assert_eq!(store.claim(&place.claim(worker, 5)).await.unwrap().len(), 1, "nothing was partially done");
    store.close().await;
    place.end().await;
}
