//! Every call has a deadline: a lock that somebody never lets go of, and a pool that is empty, end in an error that says
//! so, within the time that was set.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use windlass_core::store::{KindUpdate, QueueUpdate};
use windlass_core::{KindId, KindSpec, QueueId, QueueSpec, Store, StoreError};
use windlass_store_postgres::Options;

use crate::place::{Place, open_with, server};

const DEADLINE: Duration = Duration::from_millis(300);
/// A crowded machine may take its time on top.
const IN_TIME: Duration = Duration::from_secs(10);

async fn is_busy<T: std::fmt::Debug>(op: &str, call: impl Future<Output = Result<T, StoreError>>) {
    let begun = Instant::now();
    let ended = tokio::time::timeout(IN_TIME, call).await.unwrap_or_else(|_| panic!("{op} still waits"));
    assert!(begun.elapsed() >= DEADLINE / 2, "{op} did not wait for the lock: {ended:?}");
    match ended {
        Err(error @ StoreError::Busy { .. }) => {
            assert!(error.is_transient(), "{op}: workers try it again");
            let text = error.chain();
            assert!(text.contains("in time") && text.contains("statement timeout"), "{op}: {text}");
        }
        other => panic!("{op}: {other:?}"),
    }
}

/// The store's statements have [`DEADLINE`]; somebody holds every table they need.
pub(crate) async fn a_stuck_lock_ends_in_time(store: &dyn Store, schema: &str) {
    let mut somebody = PgConnection::connect(&server()).await.unwrap();
    let tables =
        ["queues", "kinds", "ready", "claims", "workers", "rates"].map(|table| format!("{schema}.{table}"));
    let lock = format!("begin; lock table {} in access exclusive mode", tables.join(", "));
    somebody.execute(AssertSqlSafe(lock)).await.unwrap();
    is_busy("list queues", store.queues()).await;
    is_busy("register", store.sync_registry(&[QueueSpec::named("Q")], &[KindSpec::new("k", "Q")], None))
        .await;
    let pause = QueueUpdate { paused: Some(true), ..QueueUpdate::default() };
    is_busy("change a queue", store.update_queue(QueueId(1), &pause)).await;
    is_busy("change a kind", store.update_kind(KindId(1), &KindUpdate::default())).await;
    is_busy("lease tokens", store.lease_tokens(KindId(1), 1, 0)).await;
    is_busy("list workers", store.workers()).await;
    somebody.execute("rollback").await.unwrap();
    store.queues().await.unwrap();
}

#[tokio::test]
async fn an_empty_pool_ends_in_a_clear_error() {
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
    let mut somebody = PgConnection::connect(&server()).await.unwrap();
    let lock = format!("begin; lock table {}.ready in access exclusive mode", place.schema);
    somebody.execute(AssertSqlSafe(lock)).await.unwrap();
    is_busy("claim", store.claim(&place.claim(worker, 5))).await;
    is_busy("poll", store.poll(worker, &place.served())).await;
    is_busy("enqueue", store.enqueue(&[place.job()])).await;
    somebody.execute("rollback").await.unwrap();
    assert_eq!(store.claim(&place.claim(worker, 5)).await.unwrap().len(), 1, "nothing was done by halves");
    store.close().await;
    place.end().await;
}
