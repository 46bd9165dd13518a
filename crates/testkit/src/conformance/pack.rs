//! Migrations of packs: numbered steps, each applied once, ignored by a binary without the pack.

use windlass_core::pack::{PackMigration, PackStep, SqlText, check_steps};
use windlass_core::store::{PackTrouble, StoreError};

use super::Harness;

const fn step(version: i64, name: &'static str, up: &'static str, down: &'static str) -> PackStep {
    PackStep { version, name, up: SqlText::Same(up), down: SqlText::Same(down) }
}

const GUEST: &[PackStep] = &[
    step(
        1,
        "entries",
        "create table windlass.guest_entries (id bigint primary key, said text not null default 'windlass.guest_x; y');
         create index windlass.guest_said on windlass.guest_entries (said)",
        "drop index windlass.guest_said; drop table windlass.guest_entries",
    ),
    step(
        2,
        "visits",
        "alter table windlass.guest_entries add visits bigint not null default 0",
        "alter table windlass.guest_entries drop visits",
    ),
    step(
        3,
        "books",
        "create table windlass.guest_books (entry bigint not null references windlass.guest_entries (id), job bigint);
         create view windlass.guest_all as select e.id, b.job from windlass.guest_entries e
         left join windlass.guest_books b on b.entry = e.id",
        "drop view windlass.guest_all; drop table windlass.guest_books",
    ),
];

const OTHER: &[PackStep] =
    &[step(1, "x", "create table windlass.other_x (id bigint)", "drop table windlass.other_x")];

const PUT: &str = "insert into windlass.guest_entries (id) values ($1) returning said";

async fn put(h: &Harness, id: i64) -> Result<String, StoreError> {
    let mut tx = h.store.begin().await.unwrap();
    let rows = tx.sql().rows(PUT, &[id.into()]).await;
    match rows {
        Ok(rows) => {
            tx.commit().await.unwrap();
            rows[0].get("said")
        }
        Err(error) => {
            tx.rollback().await.unwrap();
            Err(error)
        }
    }
}

fn trouble(result: Result<impl std::fmt::Debug, StoreError>) -> PackTrouble {
    match result {
        Err(StoreError::PackSchema { pack, trouble }) => {
            assert_eq!(pack, "guest");
            trouble
        }
        other => panic!("{other:?}"),
    }
}

async fn versions(h: &Harness) -> Vec<(String, i64)> {
    let all: Vec<PackMigration> = h.store.pack_migrations().await.unwrap();
    all.into_iter().map(|row| (row.pack, row.version)).collect()
}

pub async fn up_down_and_up_again(h: Harness) {
    check_steps("guest", GUEST).unwrap();
    let before = h.now().await;
    assert_eq!(h.store.migrate_pack_up("guest", GUEST).await.unwrap(), [1, 2, 3]);
    assert!(h.store.migrate_pack_up("guest", GUEST).await.unwrap().is_empty(), "twice is harmless");
    h.store.check_pack("guest", GUEST).await.unwrap();
    let all = h.store.pack_migrations().await.unwrap();
    let named: Vec<_> = all.iter().map(|row| (row.pack.as_str(), row.version, row.name.as_str())).collect();
    assert_eq!(named, [("guest", 1, "entries"), ("guest", 2, "visits"), ("guest", 3, "books")]);
    // The recorded time is the database's real clock.
    assert!(all.iter().all(|row| row.applied_at.since(before) < std::time::Duration::from_secs(60)));
    assert_eq!(put(&h, 1).await.unwrap(), "windlass.guest_x; y", "a literal stays as it is");
    assert_eq!(h.store.migrate_pack_down("guest", GUEST, 1).await.unwrap(), [3, 2]);
    assert_eq!(versions(&h).await, [("guest".to_owned(), 1)]);
    assert!(put(&h, 1).await.is_err(), "its row is still there");
    assert_eq!(h.store.migrate_pack_down("guest", GUEST, 0).await.unwrap(), [1]);
    assert!(put(&h, 2).await.is_err(), "its table is not");
    assert_eq!(h.store.migrate_pack_up("guest", GUEST).await.unwrap(), [1, 2, 3]);
    put(&h, 1).await.unwrap();
}

pub async fn several_processes_step_at_once(h: Harness) {
    let second = h.open().await;
    let (one, two) =
        tokio::join!(h.store.migrate_pack_up("guest", GUEST), second.migrate_pack_up("guest", GUEST));
    let mut applied = [one.unwrap(), two.unwrap()].concat();
    applied.sort_unstable();
    assert_eq!(applied, [1, 2, 3], "each step is applied once");
    second.check_pack("guest", GUEST).await.unwrap();
    let (one, two) = tokio::join!(
        h.store.migrate_pack_down("guest", GUEST, 0),
        second.migrate_pack_down("guest", GUEST, 0)
    );
    let mut reverted = [one.unwrap(), two.unwrap()].concat();
    reverted.sort_unstable();
    assert_eq!(reverted, [1, 2, 3]);
}

pub async fn older_newer_and_changed_steps_are_distinguished(h: Harness) {
    assert_eq!(trouble(h.store.check_pack("guest", GUEST).await), PackTrouble::Missing);
    h.store.migrate_pack_up("guest", &GUEST[..2]).await.unwrap();
    assert_eq!(trouble(h.store.check_pack("guest", GUEST).await), PackTrouble::Old { found: 2, needed: 3 });
    let new = PackTrouble::New { found: 2, known: 1 };
    assert_eq!(trouble(h.store.check_pack("guest", &GUEST[..1]).await), new);
    assert_eq!(trouble(h.store.migrate_pack_up("guest", &GUEST[..1]).await), new);
    assert_eq!(trouble(h.store.migrate_pack_down("guest", &GUEST[..1], 0).await), new);
    let mut changed = GUEST.to_vec();
    changed[1].up = SqlText::Same("alter table windlass.guest_entries add other bigint");
    assert_eq!(trouble(h.store.check_pack("guest", &changed).await), PackTrouble::Changed { version: 2 });
    assert_eq!(
        trouble(h.store.migrate_pack_up("guest", &changed).await),
        PackTrouble::Changed { version: 2 }
    );
    assert_eq!(versions(&h).await.len(), 2, "nothing was done");
    changed = GUEST.to_vec();
    changed[0].down = SqlText::Same("drop table windlass.guest_entries");
    h.store.migrate_pack_up("guest", &changed).await.unwrap();
}

/// Two packs, and a binary that has one or none of them.
pub async fn unknown_packs_are_left_alone(h: Harness) {
    h.store.migrate_pack_up("guest", GUEST).await.unwrap();
    h.store.migrate_pack_up("other", OTHER).await.unwrap();
    h.store.check_schema().await.unwrap();
    assert!(h.store.migrate_up(None).await.unwrap().is_empty());
    h.store.check_pack("other", OTHER).await.unwrap();
    h.store.migrate_pack_down("other", OTHER, 0).await.unwrap();
    h.store.check_pack("guest", GUEST).await.unwrap();
    h.put(h.job()).await;
}

pub async fn the_record_of_steps_stays_while_tables_exist(h: Harness) {
    h.store.migrate_pack_up("guest", GUEST).await.unwrap();
    h.store.migrate_pack_up("other", OTHER).await.unwrap();
    match h.store.migrate_down(0).await {
        Err(error @ StoreError::PacksLeft { .. }) => {
            assert!(error.to_string().contains("guest, other"), "{error}")
        }
        other => panic!("{other:?}"),
    }
    h.store.check_schema().await.unwrap();
    h.store.migrate_pack_down("guest", GUEST, 0).await.unwrap();
    h.store.migrate_pack_down("other", OTHER, 0).await.unwrap();
    h.store.migrate_down(0).await.unwrap();
}

pub async fn a_failed_step_leaves_nothing(h: Harness) {
    let wrong = step(
        1,
        "half",
        "create table windlass.guest_entries (id bigint); insert into windlass.guest_nowhere values (1)",
        "drop table windlass.guest_entries",
    );
    match h.store.migrate_pack_up("guest", &[wrong]).await {
        Err(error @ StoreError::Other { .. }) => {
            let said = error.chain();
            assert!(said.contains("step 1 of pack `guest`") && said.contains("guest_nowhere"), "{said}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(versions(&h).await, []);
    assert_eq!(h.store.migrate_pack_up("guest", GUEST).await.unwrap(), [1, 2, 3], "nothing is in the way");
}

pub async fn each_database_gets_its_own_text(h: Harness) {
    let each = |sqlite, postgres| SqlText::Each { sqlite, postgres, because: "generated ids" };
    let steps = [PackStep {
        version: 1,
        name: "entries",
        up: each(
            "create table windlass.guest_entries (id integer primary key autoincrement, said text) strict",
            "create table windlass.guest_entries (id bigint generated always as identity primary key, said text)",
        ),
        down: SqlText::Same("drop table windlass.guest_entries"),
    }];
    check_steps("guest", &steps).unwrap();
    h.store.migrate_pack_up("guest", &steps).await.unwrap();
    let mut tx = h.store.begin().await.unwrap();
    for id in 1..=2 {
        let put = "insert into windlass.guest_entries (said) values ($1) returning id";
        let rows = tx.sql().rows(put, &["hello".into()]).await.unwrap();
        assert_eq!(rows[0].get::<i64>("id").unwrap(), id);
    }
    tx.commit().await.unwrap();
    h.store.check_pack("guest", &steps).await.unwrap();
}

pub async fn without_the_schema_there_are_no_packs(h: Harness) {
    h.store.migrate_down(0).await.unwrap();
    assert!(matches!(h.store.migrate_pack_up("guest", GUEST).await, Err(StoreError::SchemaMissing)));
    assert!(matches!(h.store.check_pack("guest", GUEST).await, Err(StoreError::SchemaMissing)));
    assert!(matches!(h.store.pack_migrations().await, Err(StoreError::SchemaMissing)));
}
