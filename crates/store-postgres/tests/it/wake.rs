//! Wake-ups between processes, and what happens when they are lost.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use windlass_core::store::Wake;
use windlass_core::{Store, TxRef};
use windlass_store_postgres::PostgresStore;

use crate::place::Place;

const SOON: Duration = Duration::from_secs(5);

fn wakes(store: &PostgresStore) -> UnboundedReceiver<Wake> {
    let (tx, rx) = unbounded_channel();
    store.on_wake(Box::new(move |wake| tx.send(wake).is_ok()));
    rx
}

async fn expect(rx: &mut UnboundedReceiver<Wake>, wanted: Wake) {
    let found = async { while rx.recv().await.unwrap() != wanted {} };
    timeout(SOON, found).await.unwrap_or_else(|_| panic!("no {wanted:?}"));
}

async fn listening(store: &PostgresStore) {
    let ready = async {
        while !store.examine().await.unwrap().iter().any(|f| f.name == "wake-ups" && f.ok) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, ready).await.unwrap();
}

#[tokio::test]
async fn another_process_is_woken_by_a_commit_and_a_lost_listener_reconnects() {
    let place = Place::new().await;
    let other = place.other().await;
    listening(&other).await;
    let mut heard = wakes(&other);
    place.put(1).await;
    expect(&mut heard, Wake::Queue(place.queue)).await;

    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
               where query = 'LISTEN \"' || rtrim('windlass.', '.') || '_wake\"' and pid <> pg_backend_pid()";
    place.sql(cut).await;
    expect(&mut heard, Wake::Any).await;
    listening(&other).await;
    place.put(1).await;
    expect(&mut heard, Wake::Queue(place.queue)).await;
    other.close().await;
    place.end().await;
}

/// When its transaction commits, the job's time is before everything already claimed.
#[tokio::test]
async fn a_late_commit_is_found_at_once() {
    let place = Place::new().await;
    listening(&place.store).await;
    let worker = place.worker().await;
    let mut heard = wakes(&place.store);
    let mut tx = place.pool.begin().await.unwrap();
    let late = place.store.enqueue_in(TxRef::new(&mut *tx), &[place.job()]).await.unwrap()[0].id;
    tokio::time::sleep(Duration::from_millis(2_300)).await;
    place.put(1).await;
    assert_eq!(place.lease(worker, 10).await.len(), 1);
    assert!(place.lease(worker, 10).await.is_empty());
    while heard.try_recv().is_ok() {}
    tx.commit().await.unwrap();
    expect(&mut heard, Wake::Queue(place.queue)).await;
    let leased = place.lease(worker, 10).await;
    assert_eq!(leased.iter().map(|j| j.id).collect::<Vec<_>>(), [late]);
    place.end().await;
}

/// A handle that was dropped without `close`, as at the end of a scope.
#[tokio::test]
async fn a_dropped_handle_leaves_no_session() {
    let place = Place::new().await;
    let listeners = "select count(*) from pg_stat_activity where query = 'LISTEN \"' || rtrim('windlass.', '.') || '_wake\"'";
    listening(&place.store).await;
    let other = place.other().await;
    listening(&other).await;
    assert_eq!(place.number(listeners).await, 2);
    drop(other);
    let left = async {
        while place.number(listeners).await != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, left).await.expect("the session of the dropped handle ends");
    place.end().await;
}
