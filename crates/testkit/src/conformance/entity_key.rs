//! A write that is sent again under its key is answered as it was, and done once.

use std::slice::from_ref;
use std::time::Duration;

use windlass_core::entity::{EntityWrite, Expected, IndexState, WriteRefusal};
use windlass_core::store::{Action, JobFilter, Prune, PruneWhat, Saved, StoreError, Written};
use windlass_core::{Idempotency, JobState, KeyUse, NewJob};

use super::Harness;
use super::shelf::{Shelf, taken};

const DAY: Duration = Duration::from_secs(86_400);

fn idempotency(key: &str, fingerprint: &str) -> Option<Idempotency> {
    Some(Idempotency { key: key.to_owned(), fingerprint: fingerprint.as_bytes().to_vec() })
}

fn keyed(key: &str, fingerprint: &str, write: EntityWrite) -> EntityWrite {
    EntityWrite { idempotency: idempotency(key, fingerprint), ..write }
}

fn replayed(saved: &Saved) -> &Written {
    match saved {
        Saved::Replayed(written) => written,
        other => panic!("{other:?}"),
    }
}

async fn boxes(h: &Harness) -> u64 {
    h.store.count(&JobFilter::default()).await.unwrap()
}

pub async fn the_same_write_is_answered_again(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let write = keyed("k", "f", shelf.put("a", "one"));
    let first = shelf.saved(write.clone()).await;
    assert_eq!((first.id.as_str(), first.version), ("a", 1));
    assert_eq!(replayed(&shelf.save(from_ref(&write)).await[0]), &first);
    // Whatever became of the entity since: the answer is the first one.
    shelf.saved(shelf.put("a", "two")).await;
    let job = shelf.run().await;
    shelf.index(shelf.embedded(&job, "a", "two", &[1])).await;
    assert_eq!(replayed(&shelf.save(from_ref(&write)).await[0]), &first);
    shelf.saved(shelf.delete("a")).await;
    assert_eq!(replayed(&shelf.save(from_ref(&write)).await[0]), &first);
    assert_eq!((shelf.get("a").await.state, shelf.get("a").await.version), (IndexState::Deleted, 3));
    assert_eq!(boxes(&h).await, 2);
}

/// The caller cannot know the id it was given, so it sends another.
pub async fn an_id_is_made_once(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let first = shelf.saved(keyed("k", "f", shelf.put("made", "x"))).await;
    let again = shelf.save(&[keyed("k", "f", shelf.put("made again", "x"))]).await;
    assert_eq!(replayed(&again[0]), &first);
    assert_eq!(first.id, "made");
    assert!(shelf.found("made again").await.is_none());
    assert_eq!(boxes(&h).await, 1);
}

pub async fn every_sort_of_write_is_answered_again(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let writes = [
        keyed("sync", "f", shelf.prepared("a", "one", &[1])),
        keyed("same text", "f", shelf.put("a", "one")),
        keyed("delete", "f", shelf.delete("a")),
        keyed("made anew", "f", shelf.put("a", "two")),
    ];
    let first: Vec<Written> = shelf.save(&writes).await.into_iter().map(taken).collect();
    assert_eq!(first.iter().map(|w| w.version).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let again = shelf.save(&writes).await;
    assert_eq!(again.iter().map(replayed).collect::<Vec<_>>(), first.iter().collect::<Vec<_>>());
    assert_eq!(shelf.get("a").await.version, 4);
    assert_eq!(h.count(JobState::Pending).await, 1);
}

pub async fn another_write_with_the_key_is_refused(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.saved(keyed("k", "f", shelf.put("a", "x"))).await;
    let saved = shelf
        .save(&[shelf.put("b", "x"), keyed("k", "other", shelf.put("c", "x")), shelf.put("d", "x")])
        .await;
    assert_eq!(saved[1], Saved::Refused(WriteRefusal::KeyUsed));
    assert!(
        matches!((&saved[0], &saved[2]), (Saved::Written(_), Saved::Written(_))),
        "the others are written"
    );
    assert!(shelf.found("c").await.is_none());
}

pub async fn jobs_and_entities_share_the_keys(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let job = |key: &str| NewJob { idempotency: idempotency(key, "f"), ..h.job() };
    shelf.saved(keyed("entity", "f of an entity", shelf.put("a", "x"))).await;
    match h.store.enqueue(&[job("entity")]).await {
        Err(StoreError::IdempotencyMismatch { existing, .. }) => assert_eq!(existing, KeyUse::Entity),
        other => panic!("{other:?}"),
    }
    h.put(job("job")).await;
    let used = keyed("job", "f of an entity", shelf.put("b", "x"));
    assert_eq!(shelf.refused(used).await, WriteRefusal::KeyUsed);
    assert!(shelf.found("b").await.is_none());
}

pub async fn a_refused_write_leaves_its_key_free(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let at = |version| EntityWrite { expected: Expected::Version(version), ..shelf.put("a", "x") };
    assert_eq!(shelf.refused(keyed("k", "f", at(1))).await, WriteRefusal::Missing);
    shelf.saved(shelf.put("a", "one")).await;
    assert_eq!(shelf.saved(keyed("k", "f", at(1))).await.version, 2);
    assert_eq!(replayed(&shelf.save(&[keyed("k", "f", at(1))]).await[0]).version, 2);
}

pub async fn a_key_twice_in_one_call(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let write = |id: &str| keyed("k", "f", shelf.put(id, "x"));
    let saved = shelf.save(&[write("a"), shelf.put("b", "x"), write("c")]).await;
    assert_eq!(replayed(&saved[2]), &taken(saved[0].clone()));
    assert!(shelf.found("b").await.is_some() && shelf.found("c").await.is_none());
    assert_eq!(boxes(&h).await, 2);
}

pub async fn two_racing_writes_are_one(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let other = h.open().await;
    for round in 0..20 {
        let write = |id: String| [keyed(&format!("k{round}"), "f", shelf.put(&id, "x"))];
        let (here, there) = (write(format!("here {round}")), write(format!("there {round}")));
        let (one, two) = tokio::join!(shelf.save(&here), shelf.save_on(&*other, &there));
        let (first, again) = match (&one[0], &two[0]) {
            (Saved::Written(first), Saved::Replayed(again)) => (first, again),
            (Saved::Replayed(again), Saved::Written(first)) => (first, again),
            both => panic!("round {round}: {both:?}"),
        };
        assert_eq!(first, again, "round {round}");
    }
    assert_eq!(h.store.entities(shelf.type_id, None, 100).await.unwrap().len(), 20);
    assert_eq!(boxes(&h).await, 20);
}

/// Two transactions with one key: the second answers when the first has ended. Returns both answers.
async fn race(h: &Harness, shelf: &Shelf<'_>, commit: bool) -> (Written, Saved) {
    let second = h.open().await;
    let mut tx = h.store.begin().await.unwrap();
    let write = [keyed("k", "f", shelf.put("first", "x"))];
    let first = taken(h.store.save_in(tx.tx(), &shelf.boxes, &write).await.unwrap().remove(0));
    let (boxes, write) = (shelf.boxes.clone(), [keyed("k", "f", shelf.put("second", "x"))]);
    let mut late = tokio::spawn(async move { second.save(&boxes, write.into()).await.unwrap().remove(0) });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut late).await;
    assert!(early.is_err(), "the second answered {early:?} while the first was undecided");
    if commit {
        tx.commit().await.unwrap()
    } else {
        tx.rollback().await.unwrap()
    }
    (first, late.await.unwrap())
}

pub async fn the_winner_commits(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let (first, late) = race(&h, &shelf, true).await;
    assert_eq!(replayed(&late), &first);
    assert!(shelf.found("second").await.is_none());
}

/// Neither the entity nor its key was ever there.
pub async fn the_winner_rolls_back(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let (_, late) = race(&h, &shelf, false).await;
    assert_eq!(taken(late).id, "second");
    assert!(shelf.found("first").await.is_none());
    assert_eq!(boxes(&h).await, 1);
}

pub async fn a_restated_answer_is_given_again(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let write = keyed("k", "f", shelf.put("a", "x"));
    let first = shelf.saved(write.clone()).await;
    let indexed = Written { state: IndexState::Indexed, ..first.clone() };
    h.store.restate("k", &indexed).await.unwrap();
    assert_eq!(replayed(&shelf.save(from_ref(&write)).await[0]), &indexed);
    let job = NewJob { idempotency: idempotency("job", "f"), ..h.job() };
    h.put(job.clone()).await;
    for none in ["unknown", "job"] {
        h.store.restate(none, &indexed).await.unwrap();
    }
    assert!(h.store.enqueue(&[job]).await.unwrap()[0].duplicate);
    shelf.saved(keyed("unknown", "f", shelf.put("b", "x"))).await;
}

/// The key is the write's, not its box's.
pub async fn a_key_outlives_its_box_and_goes_with_its_age(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let write = keyed("k", "f", shelf.put("a", "x"));
    let first = shelf.saved(write.clone()).await;
    let job = first.job.unwrap();
    h.act(&[job], Action::Cancel).await;
    h.act(&[job], Action::Delete).await;
    assert!(h.store.job(job).await.unwrap().is_none());
    assert_eq!(replayed(&shelf.save(from_ref(&write)).await[0]), &first);
    h.advance(2 * DAY);
    let prune = Prune { what: PruneWhat::Idempotency, older_than: DAY, dry_run: false };
    assert_eq!(h.store.prune(&prune, None).await.unwrap(), 1);
    assert_eq!(shelf.saved(write).await.version, 2);
}
