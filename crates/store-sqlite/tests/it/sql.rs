//! Statements of packs in a caller's own transaction, and that reads hold no snapshot.

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};
use windlass_core::store::{JobFilter, Sql};
use windlass_core::{Store, StoreError, TxRef};

use crate::setup::Setup;

const PUT: &str = "insert into windlass.guest_entries (id) values ($1)";

async fn own_connection(setup: &Setup) -> SqliteConnection {
    let mut own = SqliteConnectOptions::new().filename(setup.path()).connect().await.unwrap();
    own.execute("create table if not exists windlass_guest_entries (id bigint primary key)").await.unwrap();
    own
}

async fn entries(setup: &Setup) -> i64 {
    let mut read = setup.store.read().await.unwrap();
    let rows = read.rows("select count(*) as n from windlass.guest_entries", &[]).await.unwrap();
    rows[0].get("n").unwrap()
}

async fn why(sql: Result<Box<dyn Sql + '_>, StoreError>) -> String {
    match sql.unwrap().run(PUT, &[1.into()]).await {
        Err(error @ StoreError::WrongTransaction { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn own_transactions_that_can_write_are_accepted() {
    let setup = Setup::new().await;
    let mut own = own_connection(&setup).await;
    for (begin, id) in [("BEGIN IMMEDIATE", 1), ("BEGIN", 2)] {
        let mut tx = own.begin_with(begin).await.unwrap();
        setup.store.sql_in(TxRef::new(&mut *tx)).unwrap().run(PUT, &[id.into()]).await.unwrap();
        setup.store.enqueue_in(TxRef::new(&mut *tx), &[setup.job()]).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = own.begin_with("BEGIN IMMEDIATE").await.unwrap();
    setup.store.sql_in(TxRef::new(&mut *tx)).unwrap().run(PUT, &[3.into()]).await.unwrap();
    setup.store.enqueue_in(TxRef::new(&mut *tx), &[setup.job()]).await.unwrap();
    tx.rollback().await.unwrap();
    let jobs = setup.store.count(&JobFilter::default()).await.unwrap();
    assert_eq!((entries(&setup).await, jobs), (2, 2));
}

#[tokio::test]
async fn transactions_refused_for_jobs_are_refused_for_statements() {
    let setup = Setup::new().await;
    let mut own = own_connection(&setup).await;
    let text = why(setup.store.sql_in(TxRef::new(&mut own))).await;
    assert!(text.contains("not inside a transaction"), "{text}");
    let mut tx = own.begin().await.unwrap();
    tx.execute("select count(*) from windlass_jobs").await.unwrap();
    let text = why(setup.store.sql_in(TxRef::new(&mut *tx))).await;
    assert!(text.contains("only read") && text.contains("BEGIN IMMEDIATE"), "{text}");
    tx.rollback().await.unwrap();
    let other = Setup::new().await;
    let mut elsewhere = own_connection(&other).await;
    elsewhere.execute("begin immediate").await.unwrap();
    let text = why(setup.store.sql_in(TxRef::new(&mut elsewhere))).await;
    assert!(text.contains("another database file"), "{text}");
    assert_eq!((entries(&setup).await, entries(&other).await), (0, 0));
}

/// A held snapshot would keep the log from restarting.
#[tokio::test]
async fn a_reader_holds_nothing_between_statements() {
    let setup = Setup::new().await;
    let mut own = own_connection(&setup).await;
    let mut read = setup.store.read().await.unwrap();
    read.rows("select id from windlass.guest_entries", &[]).await.unwrap();
    own.execute("insert into windlass_guest_entries values (1)").await.unwrap();
    let (busy, log, moved): (i64, i64, i64) =
        sqlx::query_as("pragma wal_checkpoint(truncate)").fetch_one(&mut own).await.unwrap();
    assert_eq!((busy, log, moved), (0, 0, 0));
    assert_eq!(read.rows("select id from windlass.guest_entries", &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_closed_store_refuses_reads() {
    let setup = Setup::new().await;
    let mut read = setup.store.read().await.unwrap();
    Store::close(&setup.store).await;
    assert!(matches!(read.rows("select 1", &[]).await, Err(StoreError::Unavailable { .. })));
    assert!(Store::read(&setup.store).await.is_err());
}
