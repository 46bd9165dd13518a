//! Export is a snapshot, import is all or nothing, and ids are never reused.

use windlass_core::backup::column::int;
use windlass_core::backup::{Cell, Holdings, TABLES, Table};
use windlass_core::pack::PackStep;
use windlass_core::store::{BackupNote, PackTrouble};
use windlass_core::{JobState, NewJob, StoreError, Time};

use super::Harness;
use super::backup_fixture::{
    check_full, exported, exported_as, fill, holdings, import, import_as, put, row_of, sums,
};
use super::backup_pack::{PACK, STEPS, TABLES as TRUNK, fill_sample_pack, with_sample_pack};
use super::lane::{check_lanes, ids, put_keyed};

/// Empties the database.
async fn emptied(h: &Harness) {
    h.store.migrate_down(0).await.unwrap();
    h.store.migrate_up(None).await.unwrap();
}

pub async fn a_restore_has_every_row_of_the_export(h: Harness) {
    let filled = fill(&h).await;
    let before = exported(&*h.store).await;
    check_full(&before);
    emptied(&h).await;
    import(&*h.store, before.clone()).await;
    assert_eq!(sums(&exported(&*h.store).await), sums(&before));
    check_lanes(&h).await;
    assert_eq!(h.state(filled.completed).await, JobState::Completed);
    let waiting = h.detail(filled.waiting).await.job;
    assert_eq!((waiting.state, waiting.tags.len()), (JobState::Pending, 3));
    assert_eq!(waiting.payload, (0..=255).collect::<Vec<u8>>());
}

pub async fn leased_jobs_are_exported_as_waiting(h: Harness) {
    let filled = fill(&h).await;
    let rows = exported(&*h.store).await;
    let leased = row_of(&rows, "ready", filled.leased).expect("it waits");
    assert_eq!(leased["attempt"], Cell::Int(1), "the running attempt is not counted");
    assert!(row_of(&rows, "finished", filled.leased).is_none());
    let duplicate = row_of(&rows, "finished", filled.duplicate).expect("a newer one of its key waits");
    assert_eq!(duplicate["state"], Cell::Int(i64::from(JobState::Superseded.code())));
    assert!(row_of(&rows, "ready", filled.duplicate).is_none());
    assert_eq!(h.state(filled.leased).await, JobState::Running, "looking changes nothing");
}

/// A job that was offered a slot at the time of the export gets it in the restored database.
pub async fn an_offered_slot_is_offered_again_after_restore(h: Harness) {
    let worker = h.worker().await;
    let put = put_keyed(&h, "a", 3).await;
    let running = h.claim_one(worker).await;
    h.done(&running).await;
    let rows = exported(&*h.store).await;
    emptied(&h).await;
    import(&*h.store, rows).await;
    check_lanes(&h).await;
    let worker = h.worker().await;
    assert_eq!(ids(&h.claim(worker, 5).await), put[1..2]);
    check_lanes(&h).await;
}

pub async fn two_leased_duplicates_are_restored_as_one_waiting_job(h: Harness) {
    let worker = h.worker().await;
    let key = |h: &Harness| h.unique("k", windlass_core::OnConflict::Keep);
    let first = h.put(key(&h)).await;
    h.claim_one(worker).await;
    let second = h.put(key(&h)).await;
    h.claim_one(worker).await;
    let rows = exported(&*h.store).await;
    assert!(row_of(&rows, "ready", second).is_some() && row_of(&rows, "finished", first).is_some());
    emptied(&h).await;
    import(&*h.store, rows).await;
    assert_eq!(h.state(first).await, JobState::Superseded);
    assert_eq!(h.state(second).await, JobState::Pending);
}

pub async fn an_export_is_a_snapshot(h: Harness) {
    let before = h.put_plain(3_000).await;
    let mut export = h.store.export(&holdings()).await.unwrap();
    let first = export.next().await.unwrap().unwrap();
    assert_eq!(first.table.name, TABLES[0].name);
    let other = h.open().await;
    let worker = h.worker().await;
    for job in h.claim(worker, 1_000).await {
        h.done(&job).await;
    }
    other.enqueue(&[h.job()]).await.unwrap();
    let mut rows = vec![first];
    while let Some(batch) = export.next().await.unwrap() {
        rows.push(batch);
    }
    let sums = sums(&rows);
    assert_eq!((sums["jobs"].rows, sums["ready"].rows), (3_000, 3_000));
    assert!(!sums.contains_key("finished"), "what ended meanwhile waits in the copy");
    assert!(row_of(&rows, "ready", before[0]).is_some());
}

pub async fn only_an_empty_database_can_be_restored_into(h: Harness) {
    let refused = |result: Result<_, StoreError>| match result {
        Err(StoreError::NotEmpty { table }) => table,
        Err(other) => panic!("{other:?}"),
        Ok::<Box<dyn windlass_core::store::Import>, _>(_) => panic!("the import was accepted"),
    };
    assert_eq!(refused(h.store.import(&holdings()).await), "queues");
    emptied(&h).await;
    h.store
        .register_worker(&windlass_core::store::WorkerInfo {
            label: "host:1".to_owned(),
            queues: Vec::new(),
            lease: super::harness::LEASE,
        })
        .await
        .unwrap();
    assert_eq!(refused(h.store.import(&holdings()).await), "workers", "a worker is registered");
}

pub async fn an_unfinished_import_leaves_nothing(h: Harness) {
    fill(&h).await;
    let rows = exported(&*h.store).await;
    emptied(&h).await;
    let mut begun = h.store.import(&holdings()).await.unwrap();
    for batch in rows.iter().take(4) {
        put(begun.as_mut(), batch.table, batch.rows.clone()).await;
    }
    drop(begun);
    assert_eq!(sums(&exported(&*h.store).await).len(), 0);
    import(&*h.store, rows).await;
}

pub async fn new_ids_are_above_restored_ones(h: Harness) {
    let filled = fill(&h).await;
    let old = h.detail(filled.leased).await.attempts;
    let old_token = old.iter().map(|attempt| attempt.token).max().unwrap();
    let old_worker = h.worker().await;
    let rows = exported(&*h.store).await;
    emptied(&h).await;
    let begun = h.now().await;
    import(&*h.store, rows).await;
    let worker = h.worker().await;
    assert!(worker > old_worker && worker.0 >= begun.0, "{worker} after {old_worker}");
    let newest = h.put(NewJob { priority: 0, ..h.job() }).await;
    let leased = h.claim(worker, 1_000).await;
    assert!(leased.iter().all(|job| job.token > old_token && job.token.0 >= begun.0));
    assert!(leased.iter().all(|job| job.id <= newest));
    assert!(leased.iter().any(|job| job.id == filled.leased));
    // Every table with generated ids accepts a new row.
    h.store.sync_registry(&[windlass_core::QueueSpec::named("NEW")], &[], None).await.unwrap();
    h.store.sync_registry(&[], &[windlass_core::KindSpec::new("new", "NEW")], None).await.unwrap();
    let fixture = super::budget_fixture::BudgetFixture { h: &h, worker };
    let grant = fixture.granted(&leased[0], 1).await;
    assert!(grant.id.0 >= begun.0);
    fixture.settle(&leased[0], grant.id, 1).await;
    fixture.change(&fixture.to_reset().await).await;
    let entities = super::entity_fixture::EntityFixture::new(&h).await;
    entities.saved(entities.put("new", "text")).await;
    assert_eq!(entities.get("d").await.version, 1);
}

pub async fn restored_entities_appear_in_the_feed(h: Harness) {
    fill(&h).await;
    let rows = exported(&*h.store).await;
    emptied(&h).await;
    import(&*h.store, rows).await;
    let entities = super::entity_fixture::EntityFixture::new(&h).await;
    let mut reader = super::entity_fixture::FeedReader::default();
    let mut ids = reader.ids(&*h.store, 2).await;
    ids.sort();
    assert_eq!(ids, ["a", "c", "d"], "a reader that begins finds the living");
    entities.saved(entities.put("a", "anew")).await;
    assert_eq!(reader.ids(&*h.store, 2).await, ["a"]);
}

pub async fn backups_are_recorded(h: Harness) {
    let note = |digest: &str, at: i64| BackupNote {
        digest: digest.to_owned(),
        file: format!("/copies/{digest}"),
        taken_at: Time(at),
        rows: 7,
        bytes: 99,
        verified_at: None,
    };
    assert_eq!(h.store.backups(10).await.unwrap(), []);
    h.store.note_backup(&note("a", 1_000_000)).await.unwrap();
    h.store.note_backup(&note("b", 2_000_000)).await.unwrap();
    let good = BackupNote { verified_at: Some(Time(3_000_000)), ..note("a", 1_000_000) };
    h.store.note_backup(&good).await.unwrap();
    h.store.note_backup(&note("a", 1_000_000)).await.unwrap();
    assert_eq!(h.store.backups(10).await.unwrap(), [note("b", 2_000_000), good], "verified stays verified");
    assert_eq!(h.store.backups(1).await.unwrap().len(), 1);
    assert!(h.store.forget_backup("b").await.unwrap());
    assert!(!h.store.forget_backup("b").await.unwrap());
}

/// Empties the database and adds the tables of the sample pack.
async fn empty_with_sample_pack(h: &Harness) {
    h.store.migrate_pack_down(PACK, STEPS, 0).await.unwrap();
    emptied(h).await;
    h.store.migrate_pack_up(PACK, STEPS).await.unwrap();
}

pub async fn tables_of_packs_are_exported(h: Harness) {
    fill(&h).await;
    let rest = exported(&*h.store).await;
    empty_with_sample_pack(&h).await;
    fill_sample_pack(&*h.store, rest).await;
    let before = exported_as(&*h.store, &with_sample_pack()).await;
    check_full(&before);
    let sums_before = sums(&before);
    assert_eq!((sums_before["sample_things"].rows, sums_before["sample_labels"].rows), (5, 2));
    let refused = h.store.import(&with_sample_pack()).await.err().unwrap();
    assert!(matches!(refused, StoreError::NotEmpty { .. }), "{refused:?}");
    empty_with_sample_pack(&h).await;
    import_as(&*h.store, &with_sample_pack(), before).await;
    assert_eq!(sums(&exported_as(&*h.store, &with_sample_pack()).await), sums_before);
    let mut read = h.store.read().await.unwrap();
    let kept = "select double_x, flag_x, time_x, bytes_x from windlass.sample_things where int_x = $1";
    let row = read.rows(kept, &[i64::MIN.into()]).await.unwrap().remove(0);
    assert_eq!((row.get("double_x").unwrap(), row.get("flag_x").unwrap()), (0.1 + 0.2, false));
    assert_eq!(row.get::<Time>("time_x").unwrap(), Time(1_763_000_000_000_001));
    assert_eq!(row.get::<Vec<u8>>("bytes_x").unwrap(), (0..=255).collect::<Vec<u8>>());
}

pub async fn new_ids_in_pack_tables_are_above_restored_ones(h: Harness) {
    empty_with_sample_pack(&h).await;
    fill_sample_pack(&*h.store, Vec::new()).await;
    let mut tx = h.store.begin().await.unwrap();
    let put = "insert into windlass.sample_things (int_x) values ($1) returning no";
    let rows = tx.sql().rows(put, &[1.into()]).await.unwrap();
    assert_eq!(rows[0].get::<i64>("no").unwrap(), 8);
    tx.commit().await.unwrap();
}

async fn both_refused(h: &Harness, holdings: &Holdings) -> [StoreError; 2] {
    [h.store.export(holdings).await.err().unwrap(), h.store.import(holdings).await.err().unwrap()]
}

/// Also while its tables are empty: later rows would be missing in every backup.
pub async fn an_unknown_pack_is_refused(h: Harness) {
    empty_with_sample_pack(&h).await;
    for error in both_refused(&h, &holdings()).await {
        assert!(matches!(&error, StoreError::UnknownPack { pack } if pack == PACK), "{error:?}");
        assert!(error.to_string().contains("use one that has it"), "{error}");
    }
    h.store.migrate_pack_down(PACK, STEPS, 0).await.unwrap();
    exported(&*h.store).await;
}

/// A table or column that the pack does not declare would be missing in every backup.
pub async fn a_pack_with_undeclared_columns_is_refused(h: Harness) {
    const LESS: &[Table] = &[Table { name: "sample_labels", columns: &[int("thing")] }];
    empty_with_sample_pack(&h).await;
    let lists = [
        (holdings().with_pack(PACK, STEPS, &TRUNK[..1]), "sample_labels."),
        (holdings().with_pack(PACK, STEPS, &TRUNK[..1]).with_tables(LESS), "sample_labels.label"),
    ];
    for (list, lacks) in lists {
        match h.store.export(&list).await.err() {
            Some(StoreError::NotHeld { pack, what }) => {
                assert!(pack == PACK && what.contains(lacks), "{what}")
            }
            other => panic!("{other:?}"),
        }
    }
}

pub async fn a_pack_of_another_version_is_refused(h: Harness) {
    let trouble = |error: StoreError| match error {
        StoreError::PackSchema { trouble, .. } => trouble,
        other => panic!("{other:?}"),
    };
    emptied(&h).await;
    for error in both_refused(&h, &with_sample_pack()).await {
        assert_eq!(trouble(error), PackTrouble::Missing);
    }
    h.store.migrate_pack_up(PACK, STEPS).await.unwrap();
    let next = [STEPS[0], PackStep { version: 2, name: "next", ..STEPS[0] }];
    let newer = holdings().with_pack(PACK, &next, TRUNK);
    for error in both_refused(&h, &newer).await {
        assert_eq!(trouble(error), PackTrouble::Old { found: 1, needed: 2 });
    }
}
