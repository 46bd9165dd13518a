//! Two processes write the same entities at once: the row lock serialises them, and there is no deadlock.

use std::time::Duration;

use windlass_core::entity::{Boxed, EntityWrite, Expected, IndexState, Operation, WriteRefusal};
use windlass_core::store::{BoxDone, JobFilter, Saved, Settled};
use windlass_core::{JobState, Outcome, Store};

use super::Harness;
use super::entity_fixture::{EntityFixture, FeedReader, taken};

/// The second write waits for the first and wins. The entity has `before` versions already.
async fn race(h: &Harness, first: &dyn Store, second: &dyn Store, id: &str, before: u64, commit: bool) {
    let entities = EntityFixture::new(h).await;
    for version in 0..before {
        entities.saved(entities.put(id, &format!("version {version}"))).await;
    }
    let mut tx = first.begin().await.unwrap();
    first.save_in(tx.tx(), &entities.boxes, &[entities.put(id, "first")]).await.unwrap();
    let writes = [entities.put(id, "second"), entities.put(&format!("{id} beside"), "x")];
    let (saved, ()) = tokio::join!(second.save(&entities.boxes, writes.into()), async {
        // Long enough for the second to come to the row, which is all the same when it does not.
        tokio::time::sleep(Duration::from_millis(100)).await;
        if commit { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    });
    let written = taken(saved.unwrap().remove(0));
    let version = before + if commit { 2 } else { 1 };
    let operation = if version > 1 { Operation::Update } else { Operation::Create };
    assert_eq!((written.version, written.operation), (version, operation), "{id}");
    let found = entities.get(id).await;
    assert_eq!((found.version, found.job), (written.version, written.job));
    assert_eq!(entities.text(id).await, "second");
    assert_eq!(h.state(written.job.unwrap()).await, JobState::Pending);
}

pub async fn two_racing_writers_are_serialised(h: Harness) {
    let other = h.open().await;
    for (before, commit) in [(0, true), (0, false), (1, true), (1, false)] {
        race(&h, &*h.store, &*other, &format!("here {before} {commit}"), before, commit).await;
        race(&h, &*other, &*h.store, &format!("there {before} {commit}"), before, commit).await;
    }
    assert_eq!(h.count(JobState::Pending).await, 16, "one box each, and one of each row beside");
    assert_eq!(h.count(JobState::Superseded).await, 8);
}

/// In either order the row ends with the second write.
pub async fn racing_writes_get_distinct_versions(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let other = h.open().await;
    for round in 0..30_u64 {
        // Each pair is raced twice: once to create it, once to change it.
        let (x, y, before) = (format!("x{}", round / 2), format!("y{}", round / 2), round % 2 * 2);
        let here = [entities.put(&x, "here"), entities.put(&y, "here")];
        let there = [entities.put(&y, "there"), entities.put(&x, "there")];
        let (one, two) = tokio::join!(entities.save(&here), entities.save_on(&*other, &there));
        for (id, here, there) in [(x, &one[0], &two[1]), (y, &one[1], &two[0])] {
            let (here, there) = (taken(here.clone()), taken(there.clone()));
            let versions = [here.version.min(there.version), here.version.max(there.version)];
            assert_eq!(versions, [before + 1, before + 2], "round {round}");
            let (last, text) = if here.version == before + 2 { (here, "here") } else { (there, "there") };
            assert_eq!(entities.text(&id).await, text);
            assert_eq!(h.state(last.job.unwrap()).await, JobState::Pending);
        }
    }
    assert_eq!((h.count(JobState::Pending).await, h.count(JobState::Superseded).await), (30, 90));
}

pub async fn one_of_two_creators_wins(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let other = h.open().await;
    for round in 0..30 {
        let new =
            |text| [EntityWrite { expected: Expected::Absent, ..entities.put(&round.to_string(), text) }];
        let (here, there) = (new("here"), new("there"));
        let (one, two) = tokio::join!(entities.save(&here), entities.save_on(&*other, &there));
        let text = match (&one[0], &two[0]) {
            (Saved::Written(_), Saved::Refused(WriteRefusal::Exists { version: 1 })) => "here",
            (Saved::Refused(WriteRefusal::Exists { version: 1 }), Saved::Written(_)) => "there",
            both => panic!("round {round}: {both:?}"),
        };
        assert_eq!(entities.text(&round.to_string()).await, text);
    }
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 30, "a refused write leaves no box");
}

/// The writer came first and has not committed yet. If it commits, its content counts.
pub async fn indexing_waits_for_an_open_write(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    for (id, commit) in [("kept", true), ("undone", false)] {
        entities.saved(entities.put(id, "one")).await;
        let job = entities.run().await;
        let mut tx = h.store.begin().await.unwrap();
        h.store.save_in(tx.tx(), &entities.boxes, &[entities.put(id, "two")]).await.unwrap();
        let (answer, ()) = tokio::join!(entities.index(entities.embedded(&job, id, "one", &[1])), async {
            // Long enough for the other to come to the row, which is all the same when it does not.
            tokio::time::sleep(Duration::from_millis(100)).await;
            if commit { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        });
        assert_eq!(answer, Settled::Accepted);
        let found = entities.get(id).await;
        let wanted = if commit { (IndexState::Pending, None) } else { (IndexState::Indexed, Some(1)) };
        assert_eq!((found.state, found.indexed_version), wanted, "{id}");
        let mut reader = FeedReader::default();
        reader.drain(&*h.store, 100).await;
        assert_eq!(reader.seen[id].indexed, !commit, "{id}");
        h.claim(entities.worker, 10).await;
    }
}

/// A writer and an indexer work on the same rows: no deadlock, and the vector is of the current content.
pub async fn indexing_races_writing(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let other = h.open().await;
    let ids: Vec<String> = (0..8).map(|n| format!("e{n}")).collect();
    let put = |text: &str| ids.iter().rev().map(|id| entities.put(id, text)).collect::<Vec<_>>();
    for round in 0..15 {
        let (text, newer) = (format!("text {round}"), format!("newer {round}"));
        entities.save(&put(&text)).await;
        let jobs = h.claim(entities.worker, 20).await;
        assert_eq!(jobs.len(), 8, "round {round}");
        let done: Vec<BoxDone> = jobs
            .iter()
            .enumerate()
            .map(|(n, job)| {
                let boxed: Boxed = serde_json::from_slice(&job.payload).unwrap();
                match n % 2 {
                    0 => entities.embedded(job, &boxed.id, &text, text.as_bytes()),
                    _ => entities.failed(
                        job,
                        &boxed.id,
                        &text,
                        Outcome::Retry { after: None, error: "no".to_owned() },
                    ),
                }
            })
            .collect();
        let writes = put(&newer);
        let (answers, saved) = tokio::join!(h.store.index(done.into()), entities.save_on(&*other, &writes));
        assert!(answers.unwrap().iter().all(|end| end.settled != Settled::Stale), "round {round}");
        assert_eq!(saved.len(), 8);
        for id in &ids {
            let found = entities.get(id).await;
            assert_eq!((found.state, entities.text(id).await), (IndexState::Pending, newer.clone()));
        }
        assert_eq!(h.count(JobState::Pending).await + h.count(JobState::Scheduled).await, 8, "round {round}");
    }
}
