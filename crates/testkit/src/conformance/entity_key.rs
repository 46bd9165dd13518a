//! Idempotency keys of writes: a repeated write returns the first answer and is done once.

use std::slice::from_ref;
use std::time::Duration;

use windlass_core::entity::{EntityWrite, Expected, IndexState, WriteRefusal};
use windlass_core::store::{Action, JobFilter, Prune, PruneWhat, Saved, StoreError, Written};
use windlass_core::{Idempotency, JobState, KeyUse, NewJob};

use super::Harness;
use super::entity_fixture::{EntityFixture, taken};

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

pub async fn a_repeated_write_gets_the_first_answer(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let write = keyed("k", "f", entities.put("a", "one"));
    let first = entities.saved(write.clone()).await;
    assert_eq!((first.id.as_str(), first.version), ("a", 1));
    assert_eq!(replayed(&entities.save(from_ref(&write)).await[0]), &first);
    // The answer is the first one even after later changes of the entity.
    entities.saved(entities.put("a", "two")).await;
    let job = entities.run().await;
    entities.index(entities.embedded(&job, "a", "two", &[1])).await;
    assert_eq!(replayed(&entities.save(from_ref(&write)).await[0]), &first);
    entities.saved(entities.delete("a")).await;
    assert_eq!(replayed(&entities.save(from_ref(&write)).await[0]), &first);
    assert_eq!((entities.get("a").await.state, entities.get("a").await.version), (IndexState::Deleted, 3));
    assert_eq!(boxes(&h).await, 2);
}

/// The caller does not know the generated id, so its repeat carries another one.
pub async fn a_repeated_write_keeps_the_generated_id(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let first = entities.saved(keyed("k", "f", entities.put("made", "x"))).await;
    let again = entities.save(&[keyed("k", "f", entities.put("made again", "x"))]).await;
    assert_eq!(replayed(&again[0]), &first);
    assert_eq!(first.id, "made");
    assert!(entities.found("made again").await.is_none());
    assert_eq!(boxes(&h).await, 1);
}

pub async fn every_kind_of_write_can_be_repeated(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let writes = [
        keyed("sync", "f", entities.prepared("a", "one", &[1])),
        keyed("same text", "f", entities.put("a", "one")),
        keyed("delete", "f", entities.delete("a")),
        keyed("made anew", "f", entities.put("a", "two")),
    ];
    let first: Vec<Written> = entities.save(&writes).await.into_iter().map(taken).collect();
    assert_eq!(first.iter().map(|w| w.version).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let again = entities.save(&writes).await;
    assert_eq!(again.iter().map(replayed).collect::<Vec<_>>(), first.iter().collect::<Vec<_>>());
    assert_eq!(entities.get("a").await.version, 4);
    assert_eq!(h.count(JobState::Pending).await, 1);
}

pub async fn another_write_with_the_key_is_refused(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(keyed("k", "f", entities.put("a", "x"))).await;
    let saved = entities
        .save(&[entities.put("b", "x"), keyed("k", "other", entities.put("c", "x")), entities.put("d", "x")])
        .await;
    assert_eq!(saved[1], Saved::Refused(WriteRefusal::KeyUsed));
    assert!(
        matches!((&saved[0], &saved[2]), (Saved::Written(_), Saved::Written(_))),
        "the others are written"
    );
    assert!(entities.found("c").await.is_none());
}

pub async fn jobs_and_entities_share_one_key_space(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let job = |key: &str| NewJob { idempotency: idempotency(key, "f"), ..h.job() };
    entities.saved(keyed("entity", "f of an entity", entities.put("a", "x"))).await;
    match h.store.enqueue(&[job("entity")]).await {
        Err(StoreError::IdempotencyMismatch { existing, .. }) => assert_eq!(existing, KeyUse::Entity),
        other => panic!("{other:?}"),
    }
    h.put(job("job")).await;
    let used = keyed("job", "f of an entity", entities.put("b", "x"));
    assert_eq!(entities.refused(used).await, WriteRefusal::KeyUsed);
    assert!(entities.found("b").await.is_none());
}

pub async fn a_refused_write_leaves_its_key_free(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let at = |version| EntityWrite { expected: Expected::Version(version), ..entities.put("a", "x") };
    assert_eq!(entities.refused(keyed("k", "f", at(1))).await, WriteRefusal::Missing);
    entities.saved(entities.put("a", "one")).await;
    assert_eq!(entities.saved(keyed("k", "f", at(1))).await.version, 2);
    assert_eq!(replayed(&entities.save(&[keyed("k", "f", at(1))]).await[0]).version, 2);
}

pub async fn a_key_twice_in_one_call(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let write = |id: &str| keyed("k", "f", entities.put(id, "x"));
    let saved = entities.save(&[write("a"), entities.put("b", "x"), write("c")]).await;
    assert_eq!(replayed(&saved[2]), &taken(saved[0].clone()));
    assert!(entities.found("b").await.is_some() && entities.found("c").await.is_none());
    assert_eq!(boxes(&h).await, 2);
}

pub async fn two_racing_writes_with_one_key_write_once(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let other = h.open().await;
    for round in 0..20 {
        let write = |id: String| [keyed(&format!("k{round}"), "f", entities.put(&id, "x"))];
        let (here, there) = (write(format!("here {round}")), write(format!("there {round}")));
        let (one, two) = tokio::join!(entities.save(&here), entities.save_on(&*other, &there));
        let (first, again) = match (&one[0], &two[0]) {
            (Saved::Written(first), Saved::Replayed(again)) => (first, again),
            (Saved::Replayed(again), Saved::Written(first)) => (first, again),
            both => panic!("round {round}: {both:?}"),
        };
        assert_eq!(first, again, "round {round}");
    }
    assert_eq!(h.store.entities(entities.type_id, None, 100).await.unwrap().len(), 20);
    assert_eq!(boxes(&h).await, 20);
}

/// Two transactions with one key: the second answers only when the first has ended. Returns both answers.
async fn race(h: &Harness, entities: &EntityFixture<'_>, commit: bool) -> (Written, Saved) {
    let second = h.open().await;
    let mut tx = h.store.begin().await.unwrap();
    let write = [keyed("k", "f", entities.put("first", "x"))];
    let first = taken(h.store.save_in(tx.tx(), &entities.boxes, &write).await.unwrap().remove(0));
    let (boxes, write) = (entities.boxes.clone(), [keyed("k", "f", entities.put("second", "x"))]);
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

pub async fn the_second_write_waits_for_a_commit(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let (first, late) = race(&h, &entities, true).await;
    assert_eq!(replayed(&late), &first);
    assert!(entities.found("second").await.is_none());
}

/// The rollback removed the entity and its key.
pub async fn the_second_write_proceeds_after_a_rollback(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let (_, late) = race(&h, &entities, false).await;
    assert_eq!(taken(late).id, "second");
    assert!(entities.found("first").await.is_none());
    assert_eq!(boxes(&h).await, 1);
}

pub async fn a_replaced_answer_is_returned(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let write = keyed("k", "f", entities.put("a", "x"));
    let first = entities.saved(write.clone()).await;
    let indexed = Written { state: IndexState::Indexed, ..first.clone() };
    h.store.replace_response("k", &indexed).await.unwrap();
    assert_eq!(replayed(&entities.save(from_ref(&write)).await[0]), &indexed);
    let job = NewJob { idempotency: idempotency("job", "f"), ..h.job() };
    h.put(job.clone()).await;
    for none in ["unknown", "job"] {
        h.store.replace_response(none, &indexed).await.unwrap();
    }
    assert!(h.store.enqueue(&[job]).await.unwrap()[0].duplicate);
    entities.saved(keyed("unknown", "f", entities.put("b", "x"))).await;
}

/// The key belongs to the write, not to its box.
pub async fn a_key_outlives_its_box_and_is_pruned_by_age(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let write = keyed("k", "f", entities.put("a", "x"));
    let first = entities.saved(write.clone()).await;
    let job = first.job.unwrap();
    h.act(&[job], Action::Cancel).await;
    h.act(&[job], Action::Delete).await;
    assert!(h.store.job(job).await.unwrap().is_none());
    assert_eq!(replayed(&entities.save(from_ref(&write)).await[0]), &first);
    h.advance(2 * DAY);
    let prune = Prune { what: PruneWhat::Idempotency, older_than: DAY, dry_run: false };
    assert_eq!(h.store.prune(&prune, None).await.unwrap(), 1);
    assert_eq!(entities.saved(write).await.version, 2);
}
