//! Concurrent single saves share transactions, invisibly to callers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use windlass_core::TxRef;
use windlass_core::entity::Change;
use windlass_core::store::Written;
use windlass_index::{EntityError, SaveRequest};
use windlass_store_postgres::{Options, PostgresStore};

use crate::fixture::{DEADLINE, Fixture};

/// On Postgres, because SQLite has one writer and saves never run concurrently there.
struct Server {
    fixture: Fixture,
    store: Arc<PostgresStore>,
    pool: PgPool,
}

impl Server {
    async fn new() -> Server {
        let url = std::env::var("WINDLASS_TEST_POSTGRES_URL")
            .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
        let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() & 0xffff_ffff_ffff;
        let of_test = format!("{url}?schema=wli_{}_{nanos:x}", std::process::id());
        let store = Arc::new(PostgresStore::connect(&of_test, Options::default()).await.unwrap());
        let fixture = Fixture::over(store.clone()).await;
        let pool = PgPoolOptions::new().max_connections(2).connect(&url).await.unwrap();
        Server { fixture, store, pool }
    }

    async fn save_each(&self, ids: impl Iterator<Item = String>) -> Vec<Result<Written, EntityError>> {
        join_all(ids.map(|id| self.fixture.entities.save(put(&id)))).await
    }

    async fn number(&self, query: &str) -> i64 {
        let query = query.replace("windlass.", &format!("{}.", self.store.schema()));
        sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&self.pool).await.unwrap()
    }

    /// Not called by a failed test, which leaves its schema for inspection.
    async fn end(self) {
        self.store.drop_schema().await.unwrap();
    }
}

fn put(id: &str) -> SaveRequest {
    let fields = json!({ "text": "x" });
    SaveRequest::new("document", id, Change::Put(fields.as_object().unwrap().clone()))
}

fn version(saved: &Result<Written, EntityError>) -> u64 {
    saved.as_ref().unwrap().version
}

#[tokio::test]
async fn concurrent_saves_share_few_transactions() {
    let server = Server::new().await;
    let saved = server.save_each((0..200).map(|n| format!("e{n}"))).await;
    assert!(saved.iter().all(|saved| version(saved) == 1), "{saved:?}");
    let transactions = server.number("select count(distinct changed::text) from windlass.entities").await;
    assert!((1..=10).contains(&transactions), "{transactions} transactions");
    assert_eq!(server.number("select count(*) from windlass.ready").await, 200, "each has its box");
    server.end().await;
}

#[tokio::test]
async fn concurrent_saves_of_one_entity_get_distinct_versions() {
    let server = Server::new().await;
    let saved = server.save_each((0..100).map(|_| "one".to_owned())).await;
    let mut versions: Vec<u64> = saved.iter().map(version).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=100).collect::<Vec<_>>());
    server.end().await;
}

/// Only the save of the locked row waits.
#[tokio::test]
async fn a_locked_row_delays_no_other_save() {
    let server = Server::new().await;
    let entities = &server.fixture.entities;
    entities.save(put("held")).await.unwrap();
    let mut tx = server.pool.begin().await.unwrap();
    entities.save_in(TxRef::new(&mut *tx), put("held")).await.unwrap();
    let mut waits = Box::pin(entities.save(put("held")));
    let saved = tokio::select! {
        saved = server.save_each((0..50).map(|n| format!("e{n}"))) => saved,
        early = &mut waits => panic!("the row is held: {early:?}"),
        () = tokio::time::sleep(DEADLINE) => panic!("the others wait as well"),
    };
    assert!(saved.iter().all(|saved| version(saved) == 1), "{saved:?}");
    tx.commit().await.unwrap();
    assert_eq!(version(&tokio::time::timeout(DEADLINE, waits).await.unwrap()), 3);
    server.end().await;
}

/// A trigger refuses one save, which fails its shared transaction.
#[tokio::test]
async fn a_refused_save_fails_no_other() {
    let server = Server::new().await;
    let refuse = "
        create function windlass.refuse() returns trigger language plpgsql as
            $$ begin raise exception 'refused'; end $$;
        create trigger refuse before insert on windlass.entities
            for each row when (new.id = 'e7') execute function windlass.refuse()";
    let refuse = refuse.replace("windlass.", &format!("{}.", server.store.schema()));
    sqlx::raw_sql(AssertSqlSafe(refuse)).execute(&server.pool).await.unwrap();
    let saved = server.save_each((0..20).map(|n| format!("e{n}"))).await;
    for (n, saved) in saved.iter().enumerate() {
        match n {
            7 => assert!(matches!(saved, Err(EntityError::Store(_))), "{saved:?}"),
            _ => assert_eq!(version(saved), 1),
        }
    }
    assert_eq!(server.number("select count(*) from windlass.entities").await, 19);
    server.end().await;
}

/// Callers that are dropped during a shared transaction.
#[tokio::test]
async fn a_cancelled_save_fails_no_other() {
    let server = Server::new().await;
    let mut leave = Box::pin(server.save_each((0..2).map(|n| format!("e{n}"))));
    let mut rest = Box::pin(server.save_each((2..20).map(|n| format!("e{n}"))));
    assert!((&mut leave).now_or_never().is_none());
    assert!((&mut rest).now_or_never().is_none());
    drop(leave);
    let saved = tokio::time::timeout(Duration::from_secs(30), rest).await.expect("the others still wait");
    assert!(saved.iter().all(|saved| version(saved) == 1), "{saved:?}");
    drop(saved);
    server.end().await;
}
