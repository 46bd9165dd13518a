//! The lock session: it is held while the process lives, and taken again when the server ends it.

use std::time::Duration;

use windlass_core::Store;
use windlass_core::store::WorkerInfo;
use windlass_core::sweep::{Beat, Presence};
use windlass_store_postgres::PostgresStore;
use windlass_testkit::signal::{Seen, wait_until};

use crate::place::Place;

const SOON: Duration = Duration::from_secs(10);
const SESSION: &str = "
    select l.pid::bigint from pg_locks l join windlass.workers w
        on (l.classid::bigint << 32) | l.objid::bigint = w.lock_key
    where l.locktype = 'advisory' and l.objsubid = 1";

async fn only(store: &PostgresStore) -> Beat {
    let beats = store.look().await.unwrap().beats;
    assert_eq!(beats.len(), 1);
    beats[0]
}

#[tokio::test]
async fn a_process_that_dies_loses_its_lock() {
    let place = Place::new().await;
    let other = place.other().await;
    let lease = Duration::from_secs(60);
    let info = WorkerInfo { label: "host:2".to_owned(), queues: vec![place.queue], lease };
    other.register_worker(&info).await.unwrap();
    assert_eq!(only(&place.store).await.presence, Presence::Locked);
    drop(other);
    wait_until("the lock to be free", SOON, || async {
        Seen::when(only(&place.store).await.presence, |presence| *presence == Presence::SessionLost)
    })
    .await;
    place.end().await;
}

#[tokio::test]
async fn a_lost_session_beats_at_once_and_locks_again() {
    let place = Place::new().await;
    place.worker().await;
    let (before, session) = (only(&place.store).await, place.number(SESSION).await);
    place.sql(&format!("select pg_terminate_backend({session})")).await;
    wait_until("a heartbeat", Duration::from_secs(1), || async {
        Seen::when(only(&place.store).await.beats, |beats| *beats > before.beats)
    })
    .await;
    wait_until("the lock", SOON, || async {
        Seen::when(only(&place.store).await.presence, |presence| *presence == Presence::Locked)
    })
    .await;
    assert_ne!(place.number(SESSION).await, session);
    place.end().await;
}

#[tokio::test]
async fn a_retired_worker_gives_its_lock_back() {
    let place = Place::new().await;
    let (one, two) = (place.worker().await, place.worker().await);
    place.store.retire_worker(one).await.unwrap();
    let locks = "select count(*) from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1
                 and l.pid = (select pid from pg_locks k join windlass.workers w
                              on (k.classid::bigint << 32) | k.objid::bigint = w.lock_key limit 1)";
    wait_until("one lock to be left", SOON, || async {
        Seen::when(place.number(locks).await, |locks| *locks == 1)
    })
    .await;
    assert_eq!(only(&place.store).await.worker, two);
    place.end().await;
}
