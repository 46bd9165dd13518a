//! Scratch schemas are removed when they are no longer used, never before.

use windlass_core::Store;

use crate::place::{Place, fresh_schema, open};

#[tokio::test]
async fn a_scratch_schema_is_swept_when_its_user_is_gone() {
    let place = Place::bare().await;
    let (used, left) = (fresh_schema(), fresh_schema());
    let pattern = format!("^({used}|{left})$");
    let (user, dead) = (open(&used).await, open(&left).await);
    let held = user.hold_schema().await.unwrap();
    let gone = dead.hold_schema().await.unwrap();
    for schema in [&used, &left] {
        place.sql(&format!("create schema {schema}; create table {schema}.t ()")).await;
    }
    assert!(place.store.sweep_schemas(&pattern).await.unwrap().is_empty(), "both are in use");
    drop(gone);
    dead.close().await;
    assert_eq!(place.store.left_schemas(&pattern).await.unwrap(), std::slice::from_ref(&left));
    assert_eq!(
        place.store.left_schemas(&pattern).await.unwrap(),
        std::slice::from_ref(&left),
        "listing changes nothing"
    );
    let (one, other) = tokio::join!(place.store.sweep_schemas(&pattern), place.store.sweep_schemas(&pattern));
    assert_eq!([one.unwrap(), other.unwrap()].concat(), [left], "one of two sweeps removes it");
    let exists = format!("select count(*) from pg_namespace where nspname = '{used}'");
    assert_eq!(place.number(&exists).await, 1);
    drop(held);
    user.drop_schema().await.unwrap();
    user.close().await;
    place.end().await;
}
