//! Callers' transactions, from `begin` and their own.

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};
use windlass_core::store::JobFilter;
use windlass_core::{OnConflict, Store, StoreError, TxRef, Unique};

use crate::setup::Setup;

async fn own_connection(setup: &Setup) -> SqliteConnection {
    SqliteConnectOptions::new().filename(setup.path()).connect().await.unwrap()
}

async fn jobs(setup: &Setup) -> u64 {
    setup.store.count(&JobFilter::default()).await.unwrap()
}

fn why(error: StoreError) -> String {
    match error {
        StoreError::WrongTransaction { .. } => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_rollback_and_a_drop_leave_no_job() {
    let setup = Setup::new().await;
    let mut tx = setup.store.begin().await.unwrap();
    setup.store.enqueue_in(tx.tx(), &[setup.job()]).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = setup.store.begin().await.unwrap();
    setup.store.enqueue_in(tx.tx(), &[setup.job()]).await.unwrap();
    drop(tx);
    setup.put().await;
    assert_eq!(jobs(&setup).await, 1);
}

#[tokio::test]
async fn application_rows_and_jobs_are_one_commit() {
    let setup = Setup::new().await;
    let mut tx = setup.store.begin().await.unwrap();
    let connection = tx.tx().connection::<SqliteConnection>().unwrap();
    connection.execute("create table orders (id integer primary key)").await.unwrap();
    connection.execute("insert into orders values (1)").await.unwrap();
    setup.store.enqueue_in(tx.tx(), &vec![setup.job(); 1_000]).await.unwrap();
    assert_eq!(jobs(&setup).await, 0, "not visible before the commit");
    tx.commit().await.unwrap();
    assert_eq!(jobs(&setup).await, 1_000);
}

/// Without a savepoint the first job of the refused call would become part of the caller's commit.
#[tokio::test]
async fn a_refused_call_leaves_the_rest_of_the_transaction() {
    let setup = Setup::new().await;
    let duplicate = || {
        let mut job = setup.job();
        job.unique = Some(Unique::until_started("k", OnConflict::Reject));
        job
    };
    let mut tx = setup.store.begin().await.unwrap();
    setup.store.enqueue_in(tx.tx(), &[setup.job()]).await.unwrap();
    let refused = setup.store.enqueue_in(tx.tx(), &[setup.job(), duplicate(), duplicate()]).await;
    assert!(matches!(refused, Err(StoreError::UniqueRejected { .. })));
    tx.commit().await.unwrap();
    assert_eq!(jobs(&setup).await, 1);
}

#[tokio::test]
async fn a_transaction_that_has_only_read_is_refused_with_the_remedy() {
    let setup = Setup::new().await;
    let mut own = own_connection(&setup).await;
    let mut tx = own.begin().await.unwrap();
    tx.execute("select count(*) from windlass_jobs").await.unwrap();
    let text = why(setup.store.enqueue_in(TxRef::new(&mut *tx), &[setup.job()]).await.unwrap_err());
    assert!(text.contains("only read") && text.contains("BEGIN IMMEDIATE"), "{text}");
    assert!(text.contains("windlass.begin()"), "{text}");
}

#[tokio::test]
async fn no_transaction_another_file_and_another_type_are_refused() {
    let setup = Setup::new().await;
    let mut own = own_connection(&setup).await;
    let text = why(setup.store.enqueue_in(TxRef::new(&mut own), &[setup.job()]).await.unwrap_err());
    assert!(text.contains("not inside a transaction"), "{text}");
    let other = Setup::new().await;
    let mut elsewhere = own_connection(&other).await;
    elsewhere.execute("begin immediate").await.unwrap();
    let text = why(setup.store.enqueue_in(TxRef::new(&mut elsewhere), &[setup.job()]).await.unwrap_err());
    assert!(text.contains("another database file"), "{text}");
    let text = why(setup.store.enqueue_in(TxRef::new(&mut 7_u8), &[setup.job()]).await.unwrap_err());
    assert!(text.contains("SqliteConnection"), "{text}");
    assert_eq!(jobs(&setup).await, 0);
}

#[tokio::test]
async fn own_transactions_that_can_write_are_accepted() {
    let setup = Setup::new().await;
    let mut own = own_connection(&setup).await;
    // Immediate; deferred and unused; deferred with a write.
    for (begin, first) in
        [("BEGIN IMMEDIATE", None), ("BEGIN", None), ("BEGIN", Some("create table if not exists t (x)"))]
    {
        let mut tx = own.begin_with(begin).await.unwrap();
        if let Some(first) = first {
            tx.execute(first).await.unwrap();
        }
        setup.store.enqueue_in(TxRef::new(&mut *tx), &[setup.job()]).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(jobs(&setup).await, 3);
}

/// The writer waits at the gate while a caller's transaction is open, and its commands then all succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_waits_for_a_callers_transaction() {
    let setup = Setup::new().await;
    let mut tx = setup.store.begin().await.unwrap();
    setup.store.enqueue_in(tx.tx(), &[setup.job()]).await.unwrap();
    let (store, job) = (setup.store.clone(), setup.job());
    let mut waiting = tokio::spawn(async move { store.enqueue(&[job]).await });
    let early = tokio::time::timeout(std::time::Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err(), "written while a transaction was open: {early:?}");
    tx.commit().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(jobs(&setup).await, 2);
}
