//! Ending boxes: settlement and vector are one write, and a stale lease writes neither.

use std::time::Duration;

use windlass_core::entity::{Change, IndexState};
use windlass_core::store::{BoxDone, BoxOutcome, Settled};
use windlass_core::{JobState, Outcome, Token};

use super::Harness;
use super::entity_fixture::{EntityFixture, FeedReader, fields};

async fn vector(h: &Harness, id: &str) -> (Option<Vec<u8>>, bool) {
    let mut reader = FeedReader::default();
    reader.drain(&*h.store, 100).await;
    reader.seen.get(id).map_or((None, false), |seen| (seen.vector.clone(), seen.indexed))
}

pub async fn an_embedded_box_is_indexed(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let job = entities.indexed("a", "x", &[1, 2, 3]).await;
    assert_eq!(h.state(job).await, JobState::Completed);
    let found = entities.get("a").await;
    assert_eq!((found.state, found.indexed_version, found.job), (IndexState::Indexed, Some(1), Some(job)));
    assert_eq!(vector(&h, "a").await, (Some(vec![1, 2, 3]), true));
    entities.indexed("a", "y", &[4]).await;
    assert_eq!(vector(&h, "a").await, (Some(vec![4]), true), "one vector per space");
    assert_eq!(h.store.index([].into()).await.unwrap(), []);
}

/// A feed reader sees only the vectors of its space.
pub async fn each_space_has_its_own_vector(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.indexed("a", "x", &[1]).await;
    let job = entities.saved(entities.put("a", "y")).await.job;
    let leased = entities.run().await;
    assert_eq!(Some(leased.id), job);
    let outcome = BoxOutcome::Embedded { space: "large/2".to_owned(), vector: vec![9, 9] };
    let done = BoxDone { outcome, ..entities.embedded(&leased, "a", "y", &[]) };
    assert_eq!(entities.index(done).await, Settled::Accepted);
    assert_eq!(vector(&h, "a").await, (Some(vec![1]), false), "of the content before");
    let large = h.store.changes(&Default::default(), "large/2", 10).await.unwrap().entities.remove(0);
    assert_eq!((large.vector, large.indexed), (Some(vec![9, 9]), true));
    let none = h.store.changes(&Default::default(), "other", 10).await.unwrap().entities.remove(0);
    assert_eq!((none.vector, none.indexed), (None, false));
}

pub async fn a_delete_while_its_box_runs_leaves_no_vector(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(entities.put("a", "x")).await;
    let job = entities.run().await;
    entities.saved(entities.delete("a")).await;
    assert_eq!(entities.index(entities.embedded(&job, "a", "x", &[1])).await, Settled::Accepted);
    assert_eq!(h.state(job.id).await, JobState::Completed, "the run came to its end");
    let found = entities.get("a").await;
    assert_eq!((found.version, found.state, found.fields), (2, IndexState::Deleted, None));
    assert_eq!(found.indexed_version, None);
    // A vector left behind would show up with the recreated entity.
    entities.saved(entities.put("a", "other")).await;
    assert_eq!(vector(&h, "a").await, (None, false));
}

pub async fn a_delete_removes_the_vector(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.indexed("a", "x", &[1]).await;
    entities.saved(entities.delete("a")).await;
    assert_eq!(entities.get("a").await.indexed_version, None);
    let again = entities.saved(entities.put("a", "x")).await;
    assert_eq!(again.state, IndexState::Pending, "the same text as before, and no vector of it");
    assert_eq!(vector(&h, "a").await, (None, false));
}

pub async fn a_stale_lease_writes_nothing(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(entities.put("a", "x")).await;
    let job = entities.run().await;
    let mut other = entities.embedded(&job, "a", "x", &[1]);
    other.settlement.token = Token(job.token.0 + 1);
    assert_eq!(entities.index(other).await, Settled::Stale);
    h.lose(entities.worker).await;
    assert_eq!(entities.index(entities.embedded(&job, "a", "x", &[1])).await, Settled::Stale);
    let fail = Outcome::Fail { error: "no".to_owned() };
    assert_eq!(entities.index(entities.failed(&job, "a", "x", fail)).await, Settled::Stale);
    let found = entities.get("a").await;
    assert_eq!((found.state, found.indexed_version, found.error), (IndexState::Pending, None, None));
    assert_eq!(vector(&h, "a").await, (None, false));
}

/// The vector of an old version must not replace a newer one or clear its box.
pub async fn an_outdated_vector_is_not_written(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.indexed("a", "one", &[1]).await;
    entities.saved(entities.put("a", "two")).await;
    let job = entities.run().await;
    let new = entities.saved(entities.put("a", "three")).await.job;
    assert_eq!(entities.index(entities.embedded(&job, "a", "two", &[2])).await, Settled::Accepted);
    let found = entities.get("a").await;
    assert_eq!((found.state, found.indexed_version, found.job), (IndexState::Pending, Some(1), new));
    assert_eq!(vector(&h, "a").await, (Some(vec![1]), false));
    let job = entities.run().await;
    entities.index(entities.embedded(&job, "a", "three", &[3])).await;
    assert_eq!(vector(&h, "a").await, (Some(vec![3]), true));
    assert_eq!(entities.get("a").await.indexed_version, Some(3));
}

/// Reported once per write, and only when a vector was written.
pub async fn the_time_to_searchable_is_reported_once(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let minute = Duration::from_secs(60);
    entities.saved(entities.put("a", "x")).await;
    let job = entities.run().await;
    h.advance(minute);
    let back = Outcome::Retry { after: Some(Duration::ZERO), error: "soon".to_owned() };
    assert_eq!(entities.end(entities.failed(&job, "a", "x", back)).await.searchable_after, None);
    let job = entities.run().await;
    let dearer = entities.write("a", Change::Patch(fields(r#"{"price":2}"#)));
    entities.saved(dearer).await;
    let again = entities.run().await;
    h.advance(minute);
    let end = entities.end(entities.embedded(&job, "a", "x", &[1])).await;
    assert_eq!(end.settled, Settled::Accepted);
    let after = end.searchable_after.unwrap();
    assert!((minute..2 * minute).contains(&after), "{after:?} after the last write");
    let twice = entities.end(entities.embedded(&again, "a", "x", &[1])).await;
    assert_eq!(
        (twice.settled, twice.searchable_after),
        (Settled::Accepted, None),
        "it was searchable already"
    );
    entities.saved(entities.put("a", "y")).await;
    let late = entities.run().await;
    entities.saved(entities.put("a", "z")).await;
    assert_eq!(
        entities.end(entities.embedded(&late, "a", "y", &[2])).await.searchable_after,
        None,
        "content that went"
    );
    let stale = entities.end(entities.embedded(&late, "a", "y", &[2])).await;
    assert_eq!((stale.settled, stale.searchable_after), (Settled::Stale, None));
}

pub async fn a_failed_box_marks_its_entity(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(entities.put("a", "x")).await;
    let job = entities.run().await;
    let back = Outcome::Retry { after: Some(Duration::ZERO), error: "soon".to_owned() };
    assert_eq!(entities.index(entities.failed(&job, "a", "x", back)).await, Settled::Accepted);
    assert_eq!(entities.get("a").await.state, IndexState::Pending, "it is tried again");
    let job = entities.run().await;
    let fail = || Outcome::Fail { error: "never".to_owned() };
    assert_eq!(entities.index(entities.failed(&job, "a", "x", fail())).await, Settled::Accepted);
    let found = entities.get("a").await;
    assert_eq!((found.state, found.error.as_deref()), (IndexState::Failed, Some("its box failed: never")));
    assert_eq!(h.state(job.id).await, JobState::Failed);
    assert_eq!(h.store.pending_entities(9).await.unwrap(), 0);
    let again = entities.saved(entities.put("a", "x")).await;
    assert_eq!(again.state, IndexState::Pending, "the same text is boxed again");
    assert_eq!(entities.get("a").await.error, None);
    // A failure of older content does not change the state of the current content.
    let job = entities.run().await;
    entities.saved(entities.put("a", "y")).await;
    entities.index(entities.failed(&job, "a", "x", fail())).await;
    assert_eq!(entities.get("a").await.state, IndexState::Pending);
}

pub async fn answers_are_in_the_order_of_the_request(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let writes: Vec<_> = ["a", "b", "c", "d"].iter().map(|id| entities.put(id, "x")).collect();
    entities.save(&writes).await;
    let jobs = h.claim(entities.worker, 10).await;
    entities.saved(entities.put("c", "newer")).await;
    let mut stale = entities.embedded(&jobs[1], "b", "x", &[2]);
    stale.settlement.token = Token(0);
    let back = Outcome::Retry { after: None, error: "no".to_owned() };
    let fail = Outcome::Fail { error: "never".to_owned() };
    let done = [
        entities.failed(&jobs[3], "d", "x", fail),
        stale,
        entities.failed(&jobs[2], "c", "x", back),
        entities.embedded(&jobs[0], "a", "x", &[1]),
        entities.embedded(&jobs[0], "a", "x", &[8]),
    ];
    let ends = h.store.index(done.into()).await.unwrap();
    let answers: Vec<Settled> = ends.iter().map(|end| end.settled).collect();
    use Settled::{Accepted, Stale, Superseded};
    assert_eq!(answers, [Accepted, Stale, Superseded, Accepted, Stale]);
    let mut states = Vec::new();
    for id in ["a", "b", "c", "d"] {
        states.push(entities.get(id).await.state);
    }
    use IndexState::{Failed, Indexed, Pending};
    assert_eq!(states, [Indexed, Pending, Pending, Failed]);
    assert_eq!(vector(&h, "a").await, (Some(vec![1]), true), "the second of one lease is stale");
}
