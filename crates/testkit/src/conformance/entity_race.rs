//! Two processes at the same entities at once: they take turns at the row, and nobody waits for ever.

use std::time::Duration;

use windlass_core::entity::{Boxed, EntityWrite, Expected, IndexState, Operation, WriteRefusal};
use windlass_core::store::{BoxDone, JobFilter, Saved, Settled};
use windlass_core::{JobState, Outcome, Store};

use super::Harness;
use super::shelf::{Follower, Shelf, taken};

/// The second waits for the first; who comes second has the last word. `before` versions are there already.
async fn race(h: &Harness, first: &dyn Store, second: &dyn Store, id: &str, before: u64, commit: bool) {
    let shelf = Shelf::new(h).await;
    for version in 0..before {
        shelf.saved(shelf.put(id, &format!("version {version}"))).await;
    }
    let mut tx = first.begin().await.unwrap();
    first.save_in(tx.tx(), &shelf.boxes, &[shelf.put(id, "first")]).await.unwrap();
    let writes = [shelf.put(id, "second"), shelf.put(&format!("{id} beside"), "x")];
    let (saved, ()) = tokio::join!(second.save(&shelf.boxes, writes.into()), async {
        // Long enough for the second to come to the row, which is all the same when it does not.
        tokio::time::sleep(Duration::from_millis(100)).await;
        if commit { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    });
    let written = taken(saved.unwrap().remove(0));
    let version = before + if commit { 2 } else { 1 };
    let operation = if version > 1 { Operation::Update } else { Operation::Create };
    assert_eq!((written.version, written.operation), (version, operation), "{id}");
    let found = shelf.get(id).await;
    assert_eq!((found.version, found.job), (written.version, written.job));
    assert_eq!(shelf.text(id).await, "second");
    assert_eq!(h.state(written.job.unwrap()).await, JobState::Pending);
}

pub async fn two_writers_racing_take_turns(h: Harness) {
    let other = h.open().await;
    for (before, commit) in [(0, true), (0, false), (1, true), (1, false)] {
        race(&h, &*h.store, &*other, &format!("here {before} {commit}"), before, commit).await;
        race(&h, &*other, &*h.store, &format!("there {before} {commit}"), before, commit).await;
    }
    assert_eq!(h.count(JobState::Pending).await, 16, "one box each, and one of each row beside");
    assert_eq!(h.count(JobState::Superseded).await, 8);
}

/// Whatever the order, one is first and the other second, and the row is the second's.
pub async fn racing_writes_count_each_version(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let other = h.open().await;
    for round in 0..30_u64 {
        // Each pair is raced for twice: to make it, and to change it.
        let (x, y, before) = (format!("x{}", round / 2), format!("y{}", round / 2), round % 2 * 2);
        let here = [shelf.put(&x, "here"), shelf.put(&y, "here")];
        let there = [shelf.put(&y, "there"), shelf.put(&x, "there")];
        let (one, two) = tokio::join!(shelf.save(&here), shelf.save_on(&*other, &there));
        for (id, here, there) in [(x, &one[0], &two[1]), (y, &one[1], &two[0])] {
            let (here, there) = (taken(here.clone()), taken(there.clone()));
            let versions = [here.version.min(there.version), here.version.max(there.version)];
            assert_eq!(versions, [before + 1, before + 2], "round {round}");
            let (last, text) = if here.version == before + 2 { (here, "here") } else { (there, "there") };
            assert_eq!(shelf.text(&id).await, text);
            assert_eq!(h.state(last.job.unwrap()).await, JobState::Pending);
        }
    }
    assert_eq!((h.count(JobState::Pending).await, h.count(JobState::Superseded).await), (30, 90));
}

pub async fn one_of_two_creators_wins(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let other = h.open().await;
    for round in 0..30 {
        let new = |text| [EntityWrite { expected: Expected::Absent, ..shelf.put(&round.to_string(), text) }];
        let (here, there) = (new("here"), new("there"));
        let (one, two) = tokio::join!(shelf.save(&here), shelf.save_on(&*other, &there));
        let text = match (&one[0], &two[0]) {
            (Saved::Written(_), Saved::Refused(WriteRefusal::Exists { version: 1 })) => "here",
            (Saved::Refused(WriteRefusal::Exists { version: 1 }), Saved::Written(_)) => "there",
            both => panic!("round {round}: {both:?}"),
        };
        assert_eq!(shelf.text(&round.to_string()).await, text);
    }
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 30, "a refused write leaves no box");
}

/// The writer came first and has not committed: its content counts when it does.
pub async fn a_write_under_way_is_waited_for(h: Harness) {
    let shelf = Shelf::new(&h).await;
    for (id, commit) in [("kept", true), ("undone", false)] {
        shelf.saved(shelf.put(id, "one")).await;
        let job = shelf.run().await;
        let mut tx = h.store.begin().await.unwrap();
        h.store.save_in(tx.tx(), &shelf.boxes, &[shelf.put(id, "two")]).await.unwrap();
        let (answer, ()) = tokio::join!(shelf.index(shelf.embedded(&job, id, "one", &[1])), async {
            // Long enough for the other to come to the row, which is all the same when it does not.
            tokio::time::sleep(Duration::from_millis(100)).await;
            if commit { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        });
        assert_eq!(answer, Settled::Accepted);
        let found = shelf.get(id).await;
        let wanted = if commit { (IndexState::Pending, None) } else { (IndexState::Indexed, Some(1)) };
        assert_eq!((found.state, found.indexed_version), wanted, "{id}");
        let mut follower = Follower::default();
        follower.drain(&*h.store, 100).await;
        assert_eq!(follower.seen[id].indexed, !commit, "{id}");
        h.claim(shelf.worker, 10).await;
    }
}

/// A writer and an indexer work on the same rows at once: neither waits for the other for ever, and what the index says is
/// of the content that is there.
pub async fn indexing_races_writing(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let other = h.open().await;
    let ids: Vec<String> = (0..8).map(|n| format!("e{n}")).collect();
    let put = |text: &str| ids.iter().rev().map(|id| shelf.put(id, text)).collect::<Vec<_>>();
    for round in 0..15 {
        let (text, newer) = (format!("text {round}"), format!("newer {round}"));
        shelf.save(&put(&text)).await;
        let jobs = h.claim(shelf.worker, 20).await;
        assert_eq!(jobs.len(), 8, "round {round}");
        let done: Vec<BoxDone> = jobs
            .iter()
            .enumerate()
            .map(|(n, job)| {
                let boxed: Boxed = serde_json::from_slice(&job.payload).unwrap();
                match n % 2 {
                    0 => shelf.embedded(job, &boxed.id, &text, text.as_bytes()),
                    _ => shelf.failed(
                        job,
                        &boxed.id,
                        &text,
                        Outcome::Retry { after: None, error: "no".to_owned() },
                    ),
                }
            })
            .collect();
        let writes = put(&newer);
        let (answers, saved) = tokio::join!(h.store.index(done.into()), shelf.save_on(&*other, &writes));
        assert!(answers.unwrap().iter().all(|end| end.settled != Settled::Stale), "round {round}");
        assert_eq!(saved.len(), 8);
        for id in &ids {
            let found = shelf.get(id).await;
            assert_eq!((found.state, shelf.text(id).await), (IndexState::Pending, newer.clone()));
        }
        assert_eq!(h.count(JobState::Pending).await + h.count(JobState::Scheduled).await, 8, "round {round}");
    }
}
