//! Rows out as of one moment, rows in or none, and numbers that never repeat.

use windlass_core::backup::{Cell, TABLES};
use windlass_core::store::BackupNote;
use windlass_core::{JobState, NewJob, StoreError, Time};

use super::Harness;
use super::attic::{check_full, exported, fill, import, put, row_of, sums};
use super::lane::{ids, put_keyed, sound};

/// The same database, emptied.
async fn anew(h: &Harness) {
    h.store.migrate_down(0).await.unwrap();
    h.store.migrate_up(None).await.unwrap();
}

pub async fn everything_there_and_back(h: Harness) {
    let filled = fill(&h).await;
    let before = exported(&*h.store).await;
    check_full(&before);
    anew(&h).await;
    import(&*h.store, before.clone()).await;
    assert_eq!(sums(&exported(&*h.store).await), sums(&before));
    sound(&h).await;
    assert_eq!(h.state(filled.completed).await, JobState::Completed);
    let waiting = h.detail(filled.waiting).await.job;
    assert_eq!((waiting.state, waiting.tags.len()), (JobState::Pending, 3));
    assert_eq!(waiting.payload, (0..=255).collect::<Vec<u8>>());
}

pub async fn leased_jobs_wait_again(h: Harness) {
    let filled = fill(&h).await;
    let rows = exported(&*h.store).await;
    let leased = row_of(&rows, "ready", filled.leased).expect("it waits");
    assert_eq!(leased["attempt"], Cell::Int(1), "the attempt under way is not counted");
    assert!(row_of(&rows, "finished", filled.leased).is_none());
    let twin = row_of(&rows, "finished", filled.twin).expect("a newer one of its key waits");
    assert_eq!(twin["state"], Cell::Int(i64::from(JobState::Superseded.code())));
    assert!(row_of(&rows, "ready", filled.twin).is_none());
    assert_eq!(h.state(filled.leased).await, JobState::Running, "looking changes nothing");
}

/// Who was offered a slot when the copy was made gets it in the restored database.
pub async fn what_was_offered_is_offered_anew(h: Harness) {
    let worker = h.worker().await;
    let put = put_keyed(&h, "a", 3).await;
    let running = h.claim_one(worker).await;
    h.done(&running).await;
    let rows = exported(&*h.store).await;
    anew(&h).await;
    import(&*h.store, rows).await;
    sound(&h).await;
    let worker = h.worker().await;
    assert_eq!(ids(&h.claim(worker, 5).await), put[1..2]);
    sound(&h).await;
}

pub async fn two_leased_twins_come_back_as_one(h: Harness) {
    let worker = h.worker().await;
    let key = |h: &Harness| h.unique("k", windlass_core::OnConflict::Keep);
    let first = h.put(key(&h)).await;
    h.claim_one(worker).await;
    let second = h.put(key(&h)).await;
    h.claim_one(worker).await;
    let rows = exported(&*h.store).await;
    assert!(row_of(&rows, "ready", second).is_some() && row_of(&rows, "finished", first).is_some());
    anew(&h).await;
    import(&*h.store, rows).await;
    assert_eq!(h.state(first).await, JobState::Superseded);
    assert_eq!(h.state(second).await, JobState::Pending);
}

pub async fn an_export_is_of_one_moment(h: Harness) {
    let before = h.put_plain(3_000).await;
    let mut export = h.store.export().await.unwrap();
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

pub async fn only_an_empty_database_is_restored_to(h: Harness) {
    let refused = |result: Result<_, StoreError>| match result {
        Err(StoreError::NotEmpty { table }) => table,
        Err(other) => panic!("{other:?}"),
        Ok::<Box<dyn windlass_core::store::Import>, _>(_) => panic!("it was taken"),
    };
    assert_eq!(refused(h.store.import().await), "queues");
    anew(&h).await;
    h.store
        .register_worker(&windlass_core::store::WorkerInfo {
            label: "host:1".to_owned(),
            queues: Vec::new(),
            lease: super::harness::LEASE,
        })
        .await
        .unwrap();
    assert_eq!(refused(h.store.import().await), "workers", "somebody works here");
}

pub async fn what_is_not_finished_leaves_nothing(h: Harness) {
    fill(&h).await;
    let rows = exported(&*h.store).await;
    anew(&h).await;
    let mut begun = h.store.import().await.unwrap();
    for batch in rows.iter().take(4) {
        put(begun.as_mut(), batch.table, batch.rows.clone()).await;
    }
    drop(begun);
    assert_eq!(sums(&exported(&*h.store).await).len(), 0);
    import(&*h.store, rows).await;
}

pub async fn numbers_go_on_above_everything(h: Harness) {
    let filled = fill(&h).await;
    let old = h.detail(filled.leased).await.attempts;
    let old_token = old.iter().map(|attempt| attempt.token).max().unwrap();
    let old_worker = h.worker().await;
    let rows = exported(&*h.store).await;
    anew(&h).await;
    let begun = h.now().await;
    import(&*h.store, rows).await;
    let worker = h.worker().await;
    assert!(worker > old_worker && worker.0 >= begun.0, "{worker} after {old_worker}");
    let newest = h.put(NewJob { priority: 0, ..h.job() }).await;
    let leased = h.claim(worker, 1_000).await;
    assert!(leased.iter().all(|job| job.token > old_token && job.token.0 >= begun.0));
    assert!(leased.iter().all(|job| job.id <= newest));
    assert!(leased.iter().any(|job| job.id == filled.leased));
    // Every numbered table takes a new row.
    h.store.sync_registry(&[windlass_core::QueueSpec::named("NEW")], &[]).await.unwrap();
    h.store.sync_registry(&[], &[windlass_core::KindSpec::new("new", "NEW")]).await.unwrap();
    let till = super::till::Till { h: &h, worker };
    let grant = till.granted(&leased[0], 1).await;
    assert!(grant.id.0 >= begun.0);
    till.settle(&leased[0], grant.id, 1).await;
    till.change(&till.to_reset().await).await;
    let shelf = super::shelf::Shelf::new(&h).await;
    shelf.saved(shelf.put("new", "text")).await;
    assert_eq!(shelf.get("d").await.version, 1);
}

pub async fn restored_entities_are_changes(h: Harness) {
    fill(&h).await;
    let rows = exported(&*h.store).await;
    anew(&h).await;
    import(&*h.store, rows).await;
    let shelf = super::shelf::Shelf::new(&h).await;
    let mut follower = super::shelf::Follower::default();
    let mut ids = follower.ids(&*h.store, 2).await;
    ids.sort();
    assert_eq!(ids, ["a", "c", "d"], "a follower that begins finds the living");
    shelf.saved(shelf.put("a", "anew")).await;
    assert_eq!(follower.ids(&*h.store, 2).await, ["a"]);
}

pub async fn copies_are_remembered(h: Harness) {
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
