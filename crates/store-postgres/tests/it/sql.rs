//! Statements of packs: types that only Postgres has, writes hidden in reads, a caller's own transaction.

use sqlx::{Connection, PgConnection};
use windlass_core::store::{JobFilter, SqlValue};
use windlass_core::{Store, StoreError, TxRef};

use crate::place::{Place, server};

const PUT: &str = "insert into windlass.guest_entries (id) values ($1)";

async fn prepared() -> Place {
    let place = Place::new().await;
    place.sql("create table windlass.guest_entries (id bigint primary key)").await;
    place
}

async fn entries(place: &Place) -> i64 {
    place.number("select count(*) from windlass.guest_entries").await
}

#[tokio::test]
async fn a_statement_and_a_job_share_a_callers_transaction() {
    let place = prepared().await;
    let mut own = PgConnection::connect(&server()).await.unwrap();
    for (id, keep) in [(1, true), (2, false)] {
        let mut tx = own.begin().await.unwrap();
        place.store.sql_in(TxRef::new(&mut *tx)).unwrap().run(PUT, &[id.into()]).await.unwrap();
        place.store.enqueue_in(TxRef::new(&mut *tx), &[place.job()]).await.unwrap();
        match keep {
            true => tx.commit().await.unwrap(),
            false => tx.rollback().await.unwrap(),
        }
    }
    assert_eq!((entries(&place).await, place.store.count(&JobFilter::default()).await.unwrap()), (1, 1));
    let refused = place.store.sql_in(TxRef::new(&mut own)).unwrap().run(PUT, &[3.into()]).await;
    match refused {
        Err(StoreError::WrongTransaction { why, .. }) => {
            assert!(why.contains("no open transaction"), "{why}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(entries(&place).await, 1);
    own.close().await.unwrap();
    place.end().await;
}

/// The statement looks like a read.
#[tokio::test]
async fn a_write_inside_a_read_is_refused() {
    let place = prepared().await;
    let mut read = Store::read(&place.store).await.unwrap();
    let hidden =
        "with new as (insert into windlass.guest_entries values (1) returning id) select id from new";
    let refused = read.rows(hidden, &[]).await;
    assert!(matches!(refused, Err(StoreError::WrongStatement { .. })), "{refused:?}");
    assert_eq!(entries(&place).await, 0);
    assert_eq!(read.rows("select id from windlass.guest_entries", &[]).await.unwrap().len(), 0);
    place.end().await;
}

#[tokio::test]
async fn postgres_types_are_read_as_text_or_named_in_the_error() {
    let place = prepared().await;
    let mut read = Store::read(&place.store).await.unwrap();
    let rows = r#"select '{"a": [1]}'::jsonb as b, '{"a":[1]}'::json as j, 'x'::varchar(3) as v, 7::int2 as s, 8::int4 as i,
                  1.5::float4 as f, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid as u, null::uuid as n, 'x'::name as m"#;
    let row = read.rows(rows, &[]).await.unwrap().remove(0);
    let text = |column: &str| row.get::<String>(column).unwrap();
    assert_eq!((text("b"), text("j")), (r#"{"a": [1]}"#.to_owned(), r#"{"a":[1]}"#.to_owned()));
    assert_eq!((text("v"), text("m")), ("x".to_owned(), "x".to_owned()));
    assert_eq!(text("u"), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    assert_eq!((row.get("s").unwrap(), row.get("i").unwrap(), row.get("f").unwrap()), (7_i64, 8_i64, 1.5));
    assert_eq!(row.value("n"), Some(&SqlValue::Null));
    for (expression, name) in [("1.5::numeric", "NUMERIC"), ("null::date", "DATE"), ("array[1]", "INT4[]")] {
        match read.rows(&format!("select {expression} as odd"), &[]).await {
            Err(StoreError::Corrupt { what }) => {
                assert!(what.contains("`odd`") && what.contains(name) && what.contains("cast it"), "{what}");
            }
            other => panic!("{expression}: {other:?}"),
        }
    }
    place.end().await;
}
