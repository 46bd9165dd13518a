//! Migrations: all steps give the golden schema; running them twice, down and up again, and concurrently works.

use std::path::Path;

use windlass_core::{Store, StoreError};

use crate::setup::{Setup, open};

const NEWEST: i64 = 1;
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/schema.sql");

fn dump(path: &Path) -> String {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection
        .prepare(
            "select sql from sqlite_schema where name like 'windlass_%' and sql is not null
             order by tbl_name, type desc, name",
        )
        .unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|sql| format!("{};\n\n", sql.unwrap())).collect()
}

#[tokio::test]
async fn all_migrations_give_the_golden_schema() {
    let setup = Setup::new().await;
    let found = dump(&setup.path());
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(GOLDEN, &found).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    assert_eq!(found, golden, "run the test with WINDLASS_BLESS=1 if the change is intended");
}

#[tokio::test]
async fn migrating_twice_is_harmless_and_down_removes_everything() {
    let setup = Setup::new().await;
    let before = dump(&setup.path());
    assert!(setup.store.migrate_up(None).await.unwrap().is_empty());
    assert_eq!(setup.store.migrate_down(0).await.unwrap(), (1..=NEWEST).rev().collect::<Vec<_>>());
    assert_eq!(
        dump(&setup.path()).matches("CREATE TABLE").count(),
        1,
        "only the record of migrations is left"
    );
    assert!(matches!(setup.store.check_schema().await, Err(StoreError::SchemaMissing)));
    assert!(matches!(setup.store.enqueue(&[setup.job()]).await, Err(StoreError::SchemaMissing)));
    assert_eq!(setup.store.migrate_up(None).await.unwrap(), (1..=NEWEST).collect::<Vec<_>>());
    assert_eq!(dump(&setup.path()), before);
    setup.store.check_schema().await.unwrap();
}

#[tokio::test]
async fn a_newer_schema_and_a_changed_step_have_different_errors() {
    let setup = Setup::new().await;
    let connection = rusqlite::Connection::open(setup.path()).unwrap();
    connection.execute("insert into windlass_migrations values (99, 'later', 'x', 0)", []).unwrap();
    assert!(matches!(
        setup.store.check_schema().await,
        Err(StoreError::SchemaNew { found: 99, known: NEWEST })
    ));
    assert!(setup.store.migrate_up(None).await.is_err());
    connection.execute("delete from windlass_migrations where version = 99", []).unwrap();
    connection.execute("update windlass_migrations set checksum = 'y'", []).unwrap();
    assert!(matches!(setup.store.check_schema().await, Err(StoreError::SchemaChanged { version: 1 })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_may_migrate_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("windlass.db");
    let (one, two) = (open(&path), open(&path));
    let (a, b) = tokio::join!(one.migrate_up(None), two.migrate_up(None));
    let mut applied = [a.unwrap(), b.unwrap()].concat();
    applied.sort_unstable();
    assert_eq!(applied, (1..=NEWEST).collect::<Vec<_>>(), "each step was applied by one of them");
    one.check_schema().await.unwrap();
    two.check_schema().await.unwrap();
}

#[tokio::test]
async fn the_state_check_allows_exactly_the_finished_states() {
    use windlass_core::JobState;
    let setup = Setup::new().await;
    let codes: Vec<i16> = JobState::ALL.iter().filter(|s| s.is_finished()).map(|s| s.code()).collect();
    let (first, last) = (codes[0], codes[codes.len() - 1]);
    assert_eq!(codes, (first..=last).collect::<Vec<_>>());
    assert!(dump(&setup.path()).contains(&format!("state between {first} and {last}")));
}

#[tokio::test]
async fn states_outside_the_range_are_refused() {
    let setup = Setup::new().await;
    let connection = rusqlite::Connection::open(setup.path()).unwrap();
    let put = |id: i64, state: i64| {
        let sql = "insert into windlass_finished (id, state, attempt, finished_at) values (?1, ?2, 0, 0)";
        connection.execute(sql, (id, state))
    };
    for state in [2, 8] {
        assert!(put(1, state).unwrap_err().to_string().contains("state"));
    }
    for (id, state) in (3..=7).enumerate() {
        put(id as i64 + 10, state).unwrap();
    }
}

/// Otherwise its tables could be mistaken for ours.
#[tokio::test]
async fn packs_may_not_use_our_names() {
    use windlass_core::pack::{PackStep, SqlText, check_steps};
    let setup = Setup::new().await;
    let connection = rusqlite::Connection::open(setup.path()).unwrap();
    let mut statement = connection
        .prepare("select substr(name, 10) from sqlite_schema where name like 'windlass\\_%' escape '\\'")
        .unwrap();
    let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let text = SqlText::Same("delete from x");
    for name in names.map(Result::unwrap).filter(|name| name.contains('_')) {
        let pack = name.split('_').next().unwrap();
        let step = PackStep { version: 1, name: "x", up: text, down: text };
        assert!(check_steps(pack, &[step]).is_err(), "a pack `{pack}` might have `{name}`");
    }
}
