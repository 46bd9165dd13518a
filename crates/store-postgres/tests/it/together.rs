//! Saves that come while others are under way share a transaction, and nobody can tell.

use std::time::Duration;

use futures_util::future::join_all;
use windlass_core::entity::EntityWrite;
use windlass_core::store::{EntityStore, Saved};
use windlass_core::{StoreError, TxRef};

use crate::entities::{boxes, named, puts};
use crate::place::Place;

const PATIENCE: Duration = Duration::from_secs(30);

async fn save_each(place: &Place, writes: Vec<EntityWrite>) -> Vec<Result<Vec<Saved>, StoreError>> {
    let boxes = boxes(place);
    join_all(writes.into_iter().map(|write| place.store.save(&boxes, [write].into()))).await
}

fn version(saved: &Result<Vec<Saved>, StoreError>) -> u64 {
    match saved.as_deref() {
        Ok([Saved::Written(written)]) => written.version,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn saves_at_once_are_few_transactions() {
    let place = Place::new().await;
    let writes = puts(&place, (0..200).map(|n| format!("e{n}")), "x").await;
    let saved = save_each(&place, writes).await;
    assert!(saved.iter().all(|saved| version(saved) == 1), "{saved:?}");
    let transactions = place.number("select count(distinct changed::text) from windlass.entities").await;
    assert!((1..=10).contains(&transactions), "{transactions} transactions");
    assert_eq!(place.number("select count(*) from windlass.ready").await, 200, "each has its box");
    place.end().await;
}

#[tokio::test]
async fn each_of_many_saves_of_one_entity_has_its_own_version() {
    let place = Place::new().await;
    let writes = puts(&place, (0..100).map(|_| "one".to_owned()), "x").await;
    let mut versions: Vec<u64> = save_each(&place, writes).await.iter().map(version).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=100).collect::<Vec<_>>());
    place.end().await;
}

/// Whoever wants a row that is held waits for it, and nobody else does.
#[tokio::test]
async fn a_row_that_is_held_keeps_nobody_else_waiting() {
    let place = Place::new().await;
    let (boxes, held) = (boxes(&place), puts(&place, named(&["held"]), "x").await);
    place.store.save(&boxes, held.clone().into()).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    place.store.save_in(TxRef::new(&mut *tx), &boxes, &held).await.unwrap();
    let others = puts(&place, (0..50).map(|n| format!("e{n}")), "x").await;
    let mut waits = Box::pin(place.store.save(&boxes, held.into()));
    let saved = tokio::select! {
        saved = save_each(&place, others) => saved,
        early = &mut waits => panic!("the row is held: {early:?}"),
        () = tokio::time::sleep(PATIENCE) => panic!("the others wait as well"),
    };
    assert!(saved.iter().all(|saved| version(saved) == 1), "{saved:?}");
    tx.commit().await.unwrap();
    assert_eq!(version(&waits.await), 3);
    place.end().await;
}

#[tokio::test]
async fn one_that_the_server_refuses_costs_no_other() {
    let place = Place::new().await;
    let mut writes = puts(&place, (0..20).map(|n| format!("e{n}")), "x").await;
    writes[7].id = "no\0text".to_owned();
    let saved = save_each(&place, writes).await;
    for (n, saved) in saved.iter().enumerate() {
        match n {
            7 => assert!(matches!(saved, Err(StoreError::Other { .. })), "{saved:?}"),
            _ => assert_eq!(version(saved), 1),
        }
    }
    assert_eq!(place.number("select count(*) from windlass.entities").await, 19);
    place.end().await;
}

/// Callers that give up, and theirs are the transactions under way, take nobody with them.
#[tokio::test]
async fn callers_that_leave_cost_no_other() {
    let place = Place::new().await;
    let mut writes = puts(&place, (0..20).map(|n| format!("e{n}")), "x").await;
    let rest = writes.split_off(2);
    let (mut leave, mut rest) = (Box::pin(save_each(&place, writes)), Box::pin(save_each(&place, rest)));
    tokio::select! {
        biased;
        early = &mut leave => panic!("{early:?}"),
        early = &mut rest => panic!("{early:?}"),
        () = std::future::ready(()) => {}
    }
    drop(leave);
    let saved = tokio::time::timeout(PATIENCE, rest).await.expect("the others still wait");
    assert!(saved.iter().all(|saved| version(saved) == 1), "{saved:?}");
    place.end().await;
}
