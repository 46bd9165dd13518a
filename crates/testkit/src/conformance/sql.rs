//! SQL of packs: one text with plain values gives the same answers on every database.

use windlass_core::pack::{PackStep, SqlText};
use windlass_core::store::{JobFilter, Sql, SqlRow, SqlValue, StoreError};
use windlass_core::{JobState, Time, TxRef};

use super::Harness;

/// A table with one column of each type, and one with constraints.
const STEPS: &[PackStep] = &[PackStep {
    version: 1,
    name: "guests",
    up: SqlText::Same(
        "create table windlass.guest_values (
             id bigint primary key, real_x double precision, text_x text, bytes_x bytea, flag_x boolean,
             time_x timestamptz, small_x integer);
         create table windlass.guest_entries (
             id bigint primary key, name text not null unique, visits bigint not null default 1,
             constraint guest_visits check (visits < 100))",
    ),
    down: SqlText::Same("drop table windlass.guest_values; drop table windlass.guest_entries"),
}];

const PUT: &str = "insert into windlass.guest_entries (id, name) values ($1, $2)";

/// Creates the tables.
async fn prepare(h: &Harness) {
    assert_eq!(h.store.migrate_pack_up("guest", STEPS).await.unwrap(), [1]);
}

async fn put(h: &Harness, id: i64, name: &str) {
    let mut tx = h.store.begin().await.unwrap();
    assert_eq!(tx.sql().run(PUT, &[id.into(), name.into()]).await.unwrap(), 1);
    tx.commit().await.unwrap();
}

async fn read(h: &Harness, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
    h.store.read().await.unwrap().rows(text, values).await
}

async fn names(h: &Harness) -> Vec<String> {
    let rows = read(h, "select name from windlass.guest_entries order by id", &[]).await.unwrap();
    rows.iter().map(|row| row.get("name").unwrap()).collect()
}

fn wrong<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(error @ StoreError::WrongStatement { .. }) => error.to_string(),
        other => panic!("expected WrongStatement, got {other:?}"),
    }
}

type Full = (i64, f64, String, Vec<u8>, bool, Time);

const COLUMNS: &str =
    "select id, real_x, text_x, bytes_x, flag_x, time_x from windlass.guest_values order by id";

fn full(row: &SqlRow) -> Full {
    let got = (row.get("id"), row.get("real_x"), row.get("text_x"));
    let more = (row.get("bytes_x"), row.get("flag_x"), row.get("time_x"));
    (got.0.unwrap(), got.1.unwrap(), got.2.unwrap(), more.0.unwrap(), more.1.unwrap(), more.2.unwrap())
}

pub async fn every_value_is_stored_and_read(h: Harness) {
    prepare(&h).await;
    let now = h.now().await;
    let text = |text: &str| text.to_owned();
    let mut rows: Vec<Full> = vec![
        (i64::MIN, f64::MIN, String::new(), Vec::new(), false, Time(-1)),
        (-1, f64::MIN_POSITIVE, text("it's \"q\" \\ \t\n ü 🦀 $1"), (0..=255).collect(), true, Time(0)),
        (0, 0.1 + 0.2, text("7"), vec![0], true, now),
        (i64::MAX, f64::MAX, "x".repeat(100_000), vec![7; 100_000], false, Time(i64::MAX)),
    ];
    rows.push((7, f64::INFINITY, text("-7.5"), text("text").into_bytes(), true, Time(1)));
    rows.sort_by_key(|row| row.0);
    let put = "insert into windlass.guest_values (id, real_x, text_x, bytes_x, flag_x, time_x)
               values ($1, $2, $3, $4, $5, $6)";
    let mut tx = h.store.begin().await.unwrap();
    for (id, real, text, bytes, flag, time) in rows.clone() {
        let values = [id.into(), real.into(), text.into(), bytes.into(), flag.into(), time.into()];
        assert_eq!(tx.sql().run(put, &values).await.unwrap(), 1);
    }
    let inside = tx.sql().rows(COLUMNS, &[]).await.unwrap();
    assert_eq!(inside.iter().map(full).collect::<Vec<_>>(), rows);
    tx.commit().await.unwrap();
    let outside = read(&h, COLUMNS, &[]).await.unwrap();
    assert_eq!(outside.iter().map(full).collect::<Vec<_>>(), rows);
    assert_eq!(outside[0].columns(), ["id", "real_x", "text_x", "bytes_x", "flag_x", "time_x"]);
    let (id, real, text, bytes, flag, time) = rows[2].clone();
    let values = [id.into(), real.into(), text.into(), bytes.into(), flag.into(), time.into()];
    let same =
        "select id from windlass.guest_values where id = $1 and real_x = $2 and text_x = $3 and bytes_x = $4
                and flag_x = $5 and time_x = $6";
    assert_eq!(read(&h, same, &values).await.unwrap().len(), 1, "and it can be asked for");
}

/// Also when the same statement had a value before, and vice versa.
pub async fn a_null_fits_every_column(h: Harness) {
    prepare(&h).await;
    let put = "insert into windlass.guest_values (id, real_x, text_x, bytes_x, flag_x, time_x, small_x)
               values ($1, $2, $3, $4, $5, $6, $7)";
    let full = |id: i64| -> [SqlValue; 7] {
        [id.into(), 1.5.into(), "t".into(), vec![1].into(), true.into(), Time(5).into(), 7.into()]
    };
    let empty = |id: i64| {
        let mut values = vec![SqlValue::Null; 7];
        values[0] = id.into();
        values
    };
    let mut tx = h.store.begin().await.unwrap();
    let mut sql = tx.sql();
    for (first, second) in [(empty(1), full(2).to_vec()), (full(3).to_vec(), empty(4))] {
        sql.run(put, &first).await.unwrap();
        sql.run(put, &second).await.unwrap();
    }
    drop(sql);
    tx.commit().await.unwrap();
    let rows = read(&h, "select * from windlass.guest_values order by id", &[]).await.unwrap();
    for row in [&rows[0], &rows[3]] {
        for column in &row.columns()[1..] {
            assert_eq!(row.value(column), Some(&SqlValue::Null), "{column}");
        }
        assert_eq!(row.get::<Option<Time>>("time_x").unwrap(), None);
    }
    for row in [&rows[1], &rows[2]] {
        assert_eq!(row.get::<Option<i64>>("small_x").unwrap(), Some(7));
        assert_eq!(row.get::<Option<Time>>("time_x").unwrap(), Some(Time(5)));
    }
}

pub async fn rows_changed_are_counted(h: Harness) {
    prepare(&h).await;
    for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
        put(&h, id, name).await;
    }
    let mut tx = h.store.begin().await.unwrap();
    let mut sql = tx.sql();
    let more = "update windlass.guest_entries set visits = visits + 1 where id > $1";
    assert_eq!(sql.run(more, &[1.into()]).await.unwrap(), 2);
    assert_eq!(sql.run(more, &[9.into()]).await.unwrap(), 0);
    let gone = "with old as (select id from windlass.guest_entries where id < $1)
                delete from windlass.guest_entries where id in (select id from old)";
    assert_eq!(sql.run(gone, &[3.into()]).await.unwrap(), 2);
    drop(sql);
    tx.commit().await.unwrap();
    let left = "select count(*) as n, cast(coalesce(sum(visits), 0) as bigint) as visits from windlass.guest_entries";
    let left = read(&h, left, &[]).await.unwrap();
    assert_eq!((left[0].get("n").unwrap(), left[0].get("visits").unwrap()), (1_i64, 2_i64));
}

pub async fn returning_answers(h: Harness) {
    prepare(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    let two =
        "insert into windlass.guest_entries (id, name) values ($1, $2), ($3, $4) returning id, name, visits";
    let rows = tx.sql().rows(two, &[1.into(), "a".into(), 2.into(), "b".into()]).await.unwrap();
    let got: Vec<(i64, String, i64)> = rows
        .iter()
        .map(|row| (row.get("id").unwrap(), row.get("name").unwrap(), row.get("visits").unwrap()))
        .collect();
    assert_eq!(got, [(1, "a".to_owned(), 1), (2, "b".to_owned(), 1)]);
    let none = "update windlass.guest_entries set visits = 2 where id = $1 returning id";
    assert!(tx.sql().rows(none, &[9.into()]).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    assert_eq!(names(&h).await, ["a", "b"]);
}

pub async fn on_conflict_decides(h: Harness) {
    prepare(&h).await;
    put(&h, 1, "a").await;
    let mut tx = h.store.begin().await.unwrap();
    let again = "insert into windlass.guest_entries (id, name) values ($1, $2)
                 on conflict (name) do update set visits = windlass.guest_entries.visits + excluded.visits
                 returning id, visits";
    let rows = tx.sql().rows(again, &[2.into(), "a".into()]).await.unwrap();
    assert_eq!((rows[0].get("id").unwrap(), rows[0].get("visits").unwrap()), (1_i64, 2_i64));
    let nothing = "insert into windlass.guest_entries (id, name) values ($1, $2) on conflict do nothing";
    assert_eq!(tx.sql().run(nothing, &[1.into(), "b".into()]).await.unwrap(), 0);
    tx.commit().await.unwrap();
    assert_eq!(names(&h).await, ["a"]);
}

pub async fn literals_are_left_alone(h: Harness) {
    prepare(&h).await;
    put(&h, 1, "windlass.guest_entries; $1").await;
    let text = r#"select name as "windlass.name", 'windlass.x $2' as said -- windlass.y; $3
                  from windlass.guest_entries where name like $1 || '%;%';"#;
    let rows = read(&h, text, &["windlass.".into()]).await.unwrap();
    assert_eq!(rows[0].get::<String>("windlass.name").unwrap(), "windlass.guest_entries; $1");
    assert_eq!(rows[0].get::<String>("said").unwrap(), "windlass.x $2");
}

pub async fn errors_name_wrong_columns_and_types(h: Harness) {
    prepare(&h).await;
    put(&h, 1, "a").await;
    let rows = read(&h, "select id, name from windlass.guest_entries", &[]).await.unwrap();
    let why = |error: StoreError| match error {
        StoreError::Corrupt { what } => what,
        other => panic!("{other:?}"),
    };
    assert!(why(rows[0].get::<i64>("visits").unwrap_err()).contains("`visits`"));
    assert!(why(rows[0].get::<i64>("name").unwrap_err()).contains("`name` is text"));
    for missing in ["select nothing from windlass.guest_entries", "select 1 from windlass.guest_nowhere"] {
        match read(&h, missing, &[]).await {
            Err(error @ StoreError::Other { .. }) => {
                let said = error.chain();
                assert!(said.contains("nothing") || said.contains("guest_nowhere"), "{said}");
            }
            other => panic!("{missing}: {other:?}"),
        }
    }
}

pub async fn wrong_statements_are_refused(h: Harness) {
    prepare(&h).await;
    put(&h, 1, "a").await;
    let mut tx = h.store.begin().await.unwrap();
    let mut sql = tx.sql();
    let two = "delete from windlass.guest_entries; delete from windlass.guest_values";
    assert!(wrong(sql.run(two, &[]).await).contains("more than one"));
    assert!(wrong(sql.rows("select 1; select 2", &[]).await).contains("more than one"));
    assert!(wrong(sql.run(PUT, &[1.into()]).await).contains("$2"));
    assert!(wrong(sql.rows("select 1 as x", &[1.into()]).await).contains("$1"));
    assert!(wrong(sql.run("select 1", &[]).await).contains("use `rows`"));
    assert!(wrong(sql.run(PUT, &[2.into(), "a\0".into()]).await).contains("NUL"));
    for ending in ["commit", "rollback", "drop table windlass.guest_entries"] {
        assert!(wrong(sql.run(ending, &[]).await).contains("neither reads rows nor writes them"));
    }
    // Nothing was sent, so the transaction is still usable.
    assert_eq!(sql.run(PUT, &[2.into(), "b".into()]).await.unwrap(), 1);
    drop(sql);
    tx.commit().await.unwrap();
    assert_eq!(names(&h).await, ["a", "b"]);
}

pub async fn a_unique_violation_is_reported_as_such(h: Harness) {
    prepare(&h).await;
    put(&h, 1, "a").await;
    let visits = "update windlass.guest_entries set visits = $1";
    for (text, values, sign) in [
        (PUT, vec![2.into(), "a".into()], "name"),
        (PUT, vec![1.into(), "b".into()], "id"),
        (PUT, vec![2.into(), SqlValue::Null], "name"),
        (visits, vec![100.into()], "guest_visits"),
    ] {
        let mut tx = h.store.begin().await.unwrap();
        match tx.sql().run(text, &values).await {
            Err(error @ StoreError::Constraint { .. }) => {
                assert!(!error.is_transient());
                let said = error.chain();
                assert!(
                    said.contains("run a statement") && said.contains(sign) || said.contains("pkey"),
                    "{said}"
                );
            }
            other => panic!("{values:?}: {other:?}"),
        }
        tx.rollback().await.unwrap();
    }
    assert_eq!(names(&h).await, ["a"]);
}

pub async fn reads_cannot_write(h: Harness) {
    prepare(&h).await;
    let mut read = h.store.read().await.unwrap();
    assert!(wrong(read.run(PUT, &[1.into(), "a".into()]).await).contains("`read` is for reads"));
    let returning = format!("{PUT} returning id");
    assert!(wrong(read.rows(&returning, &[1.into(), "a".into()]).await).contains("`read` is for reads"));

    assert_eq!(read.rows("select 1 as one", &[]).await.unwrap()[0].get::<i64>("one").unwrap(), 1);
    assert_eq!(names(&h).await, Vec::<String>::new());
}

/// A read handle sees each commit at its next statement; it holds no snapshot in between.
pub async fn reads_see_what_is_committed(h: Harness) {
    prepare(&h).await;
    let mut read = h.store.read().await.unwrap();
    let count = "select count(*) as n from windlass.guest_entries";
    let mut tx = h.store.begin().await.unwrap();
    tx.sql().run(PUT, &[1.into(), "a".into()]).await.unwrap();
    assert_eq!(read.rows(count, &[]).await.unwrap()[0].get::<i64>("n").unwrap(), 0, "not before");
    tx.commit().await.unwrap();
    assert_eq!(read.rows(count, &[]).await.unwrap()[0].get::<i64>("n").unwrap(), 1);
}

pub async fn rows_and_jobs_are_one_commit(h: Harness) {
    prepare(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    tx.sql().run(PUT, &[1.into(), "a".into()]).await.unwrap();
    let job = h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap()[0].id;
    tx.sql().run(PUT, &[2.into(), "b".into()]).await.unwrap();
    assert!(h.store.job(job).await.unwrap().is_none() && names(&h).await.is_empty());
    tx.commit().await.unwrap();
    assert_eq!(h.state(job).await, JobState::Pending);
    assert_eq!(names(&h).await, ["a", "b"]);
}

pub async fn a_rollback_leaves_nothing(h: Harness) {
    prepare(&h).await;
    for end in [true, false] {
        let mut tx = h.store.begin().await.unwrap();
        tx.sql().run(PUT, &[1.into(), "a".into()]).await.unwrap();
        h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap();
        match end {
            true => tx.rollback().await.unwrap(),
            false => drop(tx),
        }
    }
    // With a key left behind, this would wait for the session that has not ended yet.
    put(&h, 1, "a").await;
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 0);
}

pub async fn statements_in_a_callers_transaction(h: Harness) {
    prepare(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    let mut sql = h.store.sql_in(tx.tx()).unwrap();
    sql.run(PUT, &[1.into(), "a".into()]).await.unwrap();
    let rows = sql.rows("select name from windlass.guest_entries where id = $1", &[1.into()]).await.unwrap();
    assert_eq!(rows[0].get::<String>("name").unwrap(), "a");
    drop(sql);
    h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((names(&h).await.len(), h.count(JobState::Pending).await), (1, 1));
    let mut foreign = String::from("a connection of another driver");
    let refused = h.store.sql_in(TxRef::new(&mut foreign)).map(|_: Box<dyn Sql>| ());
    assert!(matches!(refused, Err(StoreError::WrongTransaction { .. })), "{refused:?}");
}
