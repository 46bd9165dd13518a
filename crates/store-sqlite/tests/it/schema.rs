//! Migrations: zero to newest is the golden schema, twice is harmless, down and up again works, two at once too.

use std::path::Path;

use windlass_core::{Store, StoreError};

use crate::contend::done;
use crate::setup::{Setup, ask, open, worker};

const NEWEST: i64 = 24;
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
async fn zero_to_newest_is_the_golden_schema() {
    let setup = Setup::new().await;
    let found = dump(&setup.path());
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(GOLDEN, &found).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    assert_eq!(found, golden, "run the test with WINDLASS_BLESS=1 when the change is meant");
}

#[tokio::test]
async fn twice_is_harmless_and_down_leaves_nothing() {
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
async fn newer_and_changed_are_told_apart() {
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
    assert_eq!(applied, (1..=NEWEST).collect::<Vec<_>>(), "one of them did it");
    one.check_schema().await.unwrap();
    two.check_schema().await.unwrap();
}

/// The states of the CHECK are the finished ones of the code.
#[tokio::test]
async fn the_schema_lists_the_finished_states() {
    use windlass_core::JobState;
    let setup = Setup::new().await;
    let codes: Vec<i16> = JobState::ALL.iter().filter(|s| s.is_finished()).map(|s| s.code()).collect();
    let (first, last) = (codes[0], codes[codes.len() - 1]);
    assert_eq!(codes, (first..=last).collect::<Vec<_>>());
    assert!(dump(&setup.path()).contains(&format!("state between {first} and {last}")));
}

/// A check whose text was changed in place binds every connection, whichever was open at the time.
#[tokio::test]
async fn checks_hold_before_and_after_they_were_made_quick() {
    let setup = Setup::new().await;
    let old = rusqlite::Connection::open(setup.path()).unwrap();
    let put = |connection: &rusqlite::Connection, id: i64, state: i64| {
        let sql = "insert into windlass_finished (id, state, attempt, finished_at) values (?1, ?2, 0, 0)";
        connection.execute(sql, (id, state))
    };
    let refuses = |connection: &rusqlite::Connection| {
        [2, 8].iter().all(|state| put(connection, 1, *state).unwrap_err().to_string().contains("state"))
    };
    assert!(refuses(&old));
    setup.store.migrate_down(16).await.unwrap();
    let between = rusqlite::Connection::open(setup.path()).unwrap();
    assert!(refuses(&old) && refuses(&between));
    setup.store.migrate_up(None).await.unwrap();
    assert!(refuses(&old) && refuses(&between));
    for (id, state) in (3..=7).enumerate() {
        put(&between, id as i64 + 10, state).unwrap();
    }
    let sound: String = old.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

/// The step that brings workflows makes a column of the waiting jobs anew.
#[tokio::test]
async fn a_line_stays_a_line_across_the_workflows_step() {
    use windlass_core::NewJob;
    let setup = Setup::new().await;
    let keyed = NewJob { concurrency_key: Some("key".to_owned()), ..setup.job() };
    setup.store.enqueue(&[keyed.clone(), keyed, setup.job()]).await.unwrap();
    let ask = ask(worker(&setup.store, setup.queue).await, setup.queue, setup.kind, 1);
    let head = setup.store.claim(&ask).await.unwrap().remove(0);
    let standing = || {
        let connection = rusqlite::Connection::open(setup.path()).unwrap();
        let mut statement =
            connection.prepare("select id, queue, lane is not null from windlass_ready order by id").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        rows.map(|row| row.unwrap()).collect::<Vec<(i64, i32, bool)>>()
    };
    let before = standing();
    assert_eq!(before.iter().map(|row| row.1).collect::<Vec<_>>(), [-setup.queue.0, setup.queue.0]);
    assert_eq!(setup.store.migrate_down(9).await.unwrap(), (10..=NEWEST).rev().collect::<Vec<_>>());
    assert_eq!(standing(), before);
    setup.store.migrate_up(None).await.unwrap();
    assert_eq!(standing(), before);
    assert_ne!(head.id.0, before[0].0);
}

/// Jobs of a workflow that was written before they knew their children release them all the same.
#[tokio::test]
async fn a_workflow_of_before_ends_as_any() {
    use windlass_core::workflow::{NewMember, NewWorkflow, OnFailure};
    use windlass_core::{JobState, store::WorkflowStore};
    let setup = Setup::new().await;
    let member = |name: &str, parents: Vec<usize>| NewMember {
        name: name.to_owned(),
        job: setup.job(),
        parents,
        goes_on: false,
        undo: None,
    };
    let members = vec![member("a", vec![]), member("b", vec![]), member("c", vec![0, 1])];
    let workflow = NewWorkflow { name: None, on_failure: OnFailure::Stop, members };
    let child = setup.store.enqueue_workflow(&workflow).await.unwrap().jobs[2];
    assert_eq!(setup.store.migrate_down(14).await.unwrap().last(), Some(&15));
    setup.store.migrate_up(None).await.unwrap();
    let worker = worker(&setup.store, setup.queue).await;
    for state in [JobState::Scheduled, JobState::Pending] {
        let job = setup.store.claim(&ask(worker, setup.queue, setup.kind, 1)).await.unwrap().remove(0);
        setup.store.settle(&[done(&job)]).await.unwrap();
        assert_eq!(setup.store.job(child).await.unwrap().unwrap().job.state, state);
    }
}

/// No pack is named like something of ours: its tables could be mistaken for ours.
#[tokio::test]
async fn names_of_ours_are_not_packs() {
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
