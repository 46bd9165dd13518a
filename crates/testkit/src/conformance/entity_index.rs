//! Ending boxes: the settlement and the vector are one, and neither is written by who came too late.

use std::time::Duration;

use windlass_core::entity::{Change, IndexState};
use windlass_core::store::{BoxDone, BoxOutcome, Settled};
use windlass_core::{JobState, Outcome, Token};

use super::Harness;
use super::shelf::{Follower, Shelf, fields};

async fn vector(h: &Harness, id: &str) -> (Option<Vec<u8>>, bool) {
    let mut follower = Follower::default();
    follower.drain(&*h.store, 100).await;
    follower.seen.get(id).map_or((None, false), |seen| (seen.vector.clone(), seen.indexed))
}

pub async fn an_embedded_box_is_indexed(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let job = shelf.indexed("a", "x", &[1, 2, 3]).await;
    assert_eq!(h.state(job).await, JobState::Completed);
    let found = shelf.get("a").await;
    assert_eq!((found.state, found.indexed_version, found.job), (IndexState::Indexed, Some(1), Some(job)));
    assert_eq!(vector(&h, "a").await, (Some(vec![1, 2, 3]), true));
    shelf.indexed("a", "y", &[4]).await;
    assert_eq!(vector(&h, "a").await, (Some(vec![4]), true), "one vector per space");
    assert_eq!(h.store.index([].into()).await.unwrap(), []);
}

/// A space's follower sees its own vectors and no others.
pub async fn each_space_has_its_own_vector(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.indexed("a", "x", &[1]).await;
    let job = shelf.saved(shelf.put("a", "y")).await.job;
    let leased = shelf.run().await;
    assert_eq!(Some(leased.id), job);
    let outcome = BoxOutcome::Embedded { space: "large/2".to_owned(), vector: vec![9, 9] };
    let done = BoxDone { outcome, ..shelf.embedded(&leased, "a", "y", &[]) };
    assert_eq!(shelf.index(done).await, Settled::Accepted);
    assert_eq!(vector(&h, "a").await, (Some(vec![1]), false), "of the content before");
    let large = h.store.changes(&Default::default(), "large/2", 10).await.unwrap().entities.remove(0);
    assert_eq!((large.vector, large.indexed), (Some(vec![9, 9]), true));
    let none = h.store.changes(&Default::default(), "other", 10).await.unwrap().entities.remove(0);
    assert_eq!((none.vector, none.indexed), (None, false));
}

pub async fn a_delete_while_its_box_runs(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.saved(shelf.put("a", "x")).await;
    let job = shelf.run().await;
    shelf.saved(shelf.delete("a")).await;
    assert_eq!(shelf.index(shelf.embedded(&job, "a", "x", &[1])).await, Settled::Accepted);
    assert_eq!(h.state(job.id).await, JobState::Completed, "the run came to its end");
    let found = shelf.get("a").await;
    assert_eq!((found.version, found.state, found.fields), (2, IndexState::Deleted, None));
    assert_eq!(found.indexed_version, None);
    // A vector left behind would come back to light with the entity.
    shelf.saved(shelf.put("a", "other")).await;
    assert_eq!(vector(&h, "a").await, (None, false));
}

pub async fn a_delete_takes_the_vector(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.indexed("a", "x", &[1]).await;
    shelf.saved(shelf.delete("a")).await;
    assert_eq!(shelf.get("a").await.indexed_version, None);
    let again = shelf.saved(shelf.put("a", "x")).await;
    assert_eq!(again.state, IndexState::Pending, "the same text as before, and no vector of it");
    assert_eq!(vector(&h, "a").await, (None, false));
}

pub async fn a_stale_lease_writes_nothing(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.saved(shelf.put("a", "x")).await;
    let job = shelf.run().await;
    let mut other = shelf.embedded(&job, "a", "x", &[1]);
    other.settlement.token = Token(job.token.0 + 1);
    assert_eq!(shelf.index(other).await, Settled::Stale);
    h.lose(shelf.worker).await;
    assert_eq!(shelf.index(shelf.embedded(&job, "a", "x", &[1])).await, Settled::Stale);
    let fail = Outcome::Fail { error: "no".to_owned() };
    assert_eq!(shelf.index(shelf.failed(&job, "a", "x", fail)).await, Settled::Stale);
    let found = shelf.get("a").await;
    assert_eq!((found.state, found.indexed_version, found.error), (IndexState::Pending, None, None));
    assert_eq!(vector(&h, "a").await, (None, false));
}

/// Whoever embeds an old version must not cover a newer one, nor clear its box.
pub async fn an_old_content_writes_nothing(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.indexed("a", "one", &[1]).await;
    shelf.saved(shelf.put("a", "two")).await;
    let job = shelf.run().await;
    let new = shelf.saved(shelf.put("a", "three")).await.job;
    assert_eq!(shelf.index(shelf.embedded(&job, "a", "two", &[2])).await, Settled::Accepted);
    let found = shelf.get("a").await;
    assert_eq!((found.state, found.indexed_version, found.job), (IndexState::Pending, Some(1), new));
    assert_eq!(vector(&h, "a").await, (Some(vec![1]), false));
    let job = shelf.run().await;
    shelf.index(shelf.embedded(&job, "a", "three", &[3])).await;
    assert_eq!(vector(&h, "a").await, (Some(vec![3]), true));
    assert_eq!(shelf.get("a").await.indexed_version, Some(3));
}

/// From the write to the commit of the vector, once, and only where a vector was written.
pub async fn it_says_how_long_it_took_to_be_searchable(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let minute = Duration::from_secs(60);
    shelf.saved(shelf.put("a", "x")).await;
    let job = shelf.run().await;
    h.advance(minute);
    let back = Outcome::Retry { after: Some(Duration::ZERO), error: "soon".to_owned() };
    assert_eq!(shelf.end(shelf.failed(&job, "a", "x", back)).await.searchable_after, None);
    let job = shelf.run().await;
    let dearer = shelf.write("a", Change::Patch(fields(r#"{"price":2}"#)));
    shelf.saved(dearer).await;
    let again = shelf.run().await;
    h.advance(minute);
    let end = shelf.end(shelf.embedded(&job, "a", "x", &[1])).await;
    assert_eq!(end.settled, Settled::Accepted);
    let after = end.searchable_after.unwrap();
    assert!((minute..2 * minute).contains(&after), "{after:?} after the last write");
    let twice = shelf.end(shelf.embedded(&again, "a", "x", &[1])).await;
    assert_eq!(
        (twice.settled, twice.searchable_after),
        (Settled::Accepted, None),
        "it was searchable already"
    );
    shelf.saved(shelf.put("a", "y")).await;
    let late = shelf.run().await;
    shelf.saved(shelf.put("a", "z")).await;
    assert_eq!(
        shelf.end(shelf.embedded(&late, "a", "y", &[2])).await.searchable_after,
        None,
        "content that went"
    );
    let stale = shelf.end(shelf.embedded(&late, "a", "y", &[2])).await;
    assert_eq!((stale.settled, stale.searchable_after), (Settled::Stale, None));
}

pub async fn a_failed_end_marks_the_entity(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.saved(shelf.put("a", "x")).await;
    let job = shelf.run().await;
    let back = Outcome::Retry { after: Some(Duration::ZERO), error: "soon".to_owned() };
    assert_eq!(shelf.index(shelf.failed(&job, "a", "x", back)).await, Settled::Accepted);
    assert_eq!(shelf.get("a").await.state, IndexState::Pending, "it is tried again");
    let job = shelf.run().await;
    let fail = || Outcome::Fail { error: "never".to_owned() };
    assert_eq!(shelf.index(shelf.failed(&job, "a", "x", fail())).await, Settled::Accepted);
    let found = shelf.get("a").await;
    assert_eq!((found.state, found.error.as_deref()), (IndexState::Failed, Some("its box failed: never")));
    assert_eq!(h.state(job.id).await, JobState::Failed);
    assert_eq!(h.store.pending_entities(9).await.unwrap(), 0);
    let again = shelf.saved(shelf.put("a", "x")).await;
    assert_eq!(again.state, IndexState::Pending, "the same text is boxed again");
    assert_eq!(shelf.get("a").await.error, None);
    // A failure of content that is no longer there says nothing of the present one.
    let job = shelf.run().await;
    shelf.saved(shelf.put("a", "y")).await;
    shelf.index(shelf.failed(&job, "a", "x", fail())).await;
    assert_eq!(shelf.get("a").await.state, IndexState::Pending);
}

pub async fn answers_follow_the_question(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let writes: Vec<_> = ["a", "b", "c", "d"].iter().map(|id| shelf.put(id, "x")).collect();
    shelf.save(&writes).await;
    let jobs = h.claim(shelf.worker, 10).await;
    shelf.saved(shelf.put("c", "newer")).await;
    let mut stale = shelf.embedded(&jobs[1], "b", "x", &[2]);
    stale.settlement.token = Token(0);
    let back = Outcome::Retry { after: None, error: "no".to_owned() };
    let fail = Outcome::Fail { error: "never".to_owned() };
    let done = [
        shelf.failed(&jobs[3], "d", "x", fail),
        stale,
        shelf.failed(&jobs[2], "c", "x", back),
        shelf.embedded(&jobs[0], "a", "x", &[1]),
        shelf.embedded(&jobs[0], "a", "x", &[8]),
    ];
    let ends = h.store.index(done.into()).await.unwrap();
    let answers: Vec<Settled> = ends.iter().map(|end| end.settled).collect();
    use Settled::{Accepted, Stale, Superseded};
    assert_eq!(answers, [Accepted, Stale, Superseded, Accepted, Stale]);
    let mut states = Vec::new();
    for id in ["a", "b", "c", "d"] {
        states.push(shelf.get(id).await.state);
    }
    use IndexState::{Failed, Indexed, Pending};
    assert_eq!(states, [Indexed, Pending, Pending, Failed]);
    assert_eq!(vector(&h, "a").await, (Some(vec![1]), true), "the second of one lease is stale");
}
