//! Entities on Postgres: transaction numbers, and the number of statements of a call.

use std::sync::Arc;

use sqlx::Row;
use windlass_core::entity::{BoxKind, BoxKinds, Change, EntityWrite, Expected, Fields, TypeSpec};
use windlass_core::store::{Changes, EntityStore, FeedMark};
use windlass_core::{StoreError, TxRef};

use crate::place::Place;

pub(crate) fn boxes(place: &Place) -> BoxKinds {
    let kind = BoxKind { kind: place.kind, queue: place.queue, priority: 5, max_attempts: 3, timeout: None };
    BoxKinds { soon: kind.clone(), bulk: kind }
}

pub(crate) async fn puts(place: &Place, ids: impl Iterator<Item = String>, text: &str) -> Vec<EntityWrite> {
    let spec = Arc::new(TypeSpec::document());
    let type_id = place.store.put_type(&spec, None).await.unwrap();
    let put = |id| EntityWrite {
        type_id,
        spec: spec.clone(),
        id,
        change: Change::Put(Fields::from_iter([("text".to_owned(), text.into())])),
        expected: Expected::Anything,
        strategy: None,
        priority: None,
        delay: None,
        max_attempts: None,
        prepared: None,
        idempotency: None,
    };
    ids.map(put).collect()
}

pub(crate) fn named(ids: &[&str]) -> std::vec::IntoIter<String> {
    ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>().into_iter()
}

async fn changes(place: &Place, mark: &FeedMark) -> Changes {
    place.store.changes(mark, "s", 100).await.unwrap()
}

/// Rows restored from another server have its transaction numbers, which may be higher than this server's.
#[tokio::test]
async fn rows_of_another_server_are_shown_once_and_followed() {
    let place = Place::new().await;
    let writes = puts(&place, named(&["a", "b"]), "x").await;
    place.store.save(&boxes(&place), writes.into()).await.unwrap();
    place.sql("update windlass.entities set changed = '999999999999'").await;
    let first = changes(&place, &FeedMark::default()).await;
    assert_eq!(first.entities.len(), 2);
    let quiet = changes(&place, &first.mark).await;
    assert_eq!(quiet.entities.len(), 0, "they are not shown as changes");
    let again = puts(&place, named(&["b"]), "y").await;
    place.store.save(&boxes(&place), again.into()).await.unwrap();
    let next = changes(&place, &quiet.mark).await;
    assert_eq!(next.entities.iter().map(|e| e.id.as_str()).collect::<Vec<_>>(), ["b"]);
    place.end().await;
}

/// A long transaction blocks no reader, and does not make later reads of the feed more expensive.
#[tokio::test]
async fn the_feed_repeats_nothing_during_a_long_transaction() {
    let place = Place::new().await;
    let mut mark = changes(&place, &FeedMark::default()).await.mark;
    let mut tx = place.pool.begin().await.unwrap();
    let late = puts(&place, named(&["late"]), "x").await;
    place.store.save_in(TxRef::new(&mut *tx), &boxes(&place), &late).await.unwrap();
    for round in 0..20 {
        let writes = puts(&place, named(&["a", "b", "c"]), &format!("text {round}")).await;
        place.store.save(&boxes(&place), writes.into()).await.unwrap();
        let found = changes(&place, &mark).await;
        assert_eq!((found.entities.len(), found.more), (3, false), "round {round}");
        mark = found.mark;
    }
    tx.commit().await.unwrap();
    let found = changes(&place, &mark).await;
    assert_eq!(found.entities.iter().map(|e| e.id.as_str()).collect::<Vec<_>>(), ["late"]);
    place.end().await;
}

/// A page may end among transactions that were running at the mark. The next page continues with later ones.
#[tokio::test]
async fn one_row_pages_continue_from_late_transactions_to_new_ones() {
    let place = Place::new().await;
    let save = async |ids: &[&str], text: &str| {
        let writes = puts(&place, named(ids), text).await;
        place.store.save(&boxes(&place), writes.into()).await.unwrap();
    };
    save(&["a", "b"], "x").await;
    let late = puts(&place, named(&["late", "later"]), "x").await;
    let mut tx = place.pool.begin().await.unwrap();
    place.store.save_in(TxRef::new(&mut *tx), &boxes(&place), &late).await.unwrap();
    save(&["b"], "y").await;
    save(&["a"], "y").await;
    tx.commit().await.unwrap();
    let changed = async |id: &str| {
        let sql = format!("select changed::text::bigint from windlass.entities where id = '{id}'");
        place.number(&sql).await
    };
    // The mark as it was just before `a` changed, without other transactions on the server.
    let (running, end) = (changed("late").await, changed("a").await);
    let mut mark = FeedMark(format!("feed/{running}:{end}:{running}"));
    let mut seen = Vec::new();
    loop {
        let page = place.store.changes(&mark, "s", 1).await.unwrap();
        seen.extend(page.entities.into_iter().map(|e| e.id));
        mark = page.mark;
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, ["late", "later", "a"]);
    place.end().await;
}

/// Counted by the server, which numbers the commands of a transaction.
#[tokio::test]
async fn a_thousand_entities_cost_a_handful_of_statements() {
    let place = Place::new().await;
    for text in ["one", "two"] {
        let writes = puts(&place, (0..1_000).map(|n| format!("e{n}")), text).await;
        let mut tx = place.pool.begin().await.unwrap();
        let boxes = boxes(&place);
        // The number of the next command in the transaction counts every command that wrote.
        let started = command(&mut tx).await;
        place.store.save_in(TxRef::new(&mut *tx), &boxes, &writes).await.unwrap();
        let commands = command(&mut tx).await - started;
        tx.commit().await.unwrap();
        assert!(commands < 20, "{commands} writing commands for {text}");
    }
    assert_eq!(place.number("select count(*) from windlass.ready").await, 1_000);
    place.end().await;
}

/// The current command number of the transaction, read from a row's `cmin`.
async fn command(conn: &mut sqlx::PgConnection) -> i64 {
    sqlx::raw_sql("create temp table if not exists marks (n int) on commit drop")
        .execute(&mut *conn)
        .await
        .unwrap();
    let sql = "insert into marks values (1) returning cmin::text::bigint";
    sqlx::query(sql).fetch_one(conn).await.unwrap().get(0)
}

#[tokio::test]
async fn a_connection_without_a_transaction_is_refused() {
    let place = Place::new().await;
    let writes = puts(&place, named(&["a"]), "x").await;
    let mut conn = place.pool.acquire().await.unwrap();
    let refused = place.store.save_in(TxRef::new(&mut *conn), &boxes(&place), &writes).await;
    assert!(matches!(refused, Err(StoreError::WrongTransaction { .. })));
    assert_eq!(place.number("select count(*) from windlass.entities").await, 0);
    drop(conn);
    place.end().await;
}
