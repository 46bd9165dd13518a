//! At most one box waits per entity: what happens to it on newer content and on a delete.

use std::time::Duration;

use windlass_core::entity::{Boxed, Change, EntityWrite, IndexState};
use windlass_core::store::{Action, Bulk, Settled};
use windlass_core::{JobState, Outcome, Strategy};

use super::Harness;
use super::entity_fixture::{EntityFixture, FeedReader, fields};

const MINUTE: Duration = Duration::from_secs(60);

pub async fn a_new_text_gets_a_box(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let urgent = EntityWrite { priority: Some(1), max_attempts: Some(9), ..entities.put("a", "x") };
    let written = entities.saved(urgent).await;
    assert_eq!((written.state, written.strategy), (IndexState::Pending, Some(Strategy::Async)));
    let found = entities.get("a").await;
    assert_eq!((found.state, found.job, found.indexed_version), (IndexState::Pending, written.job, None));
    let job = entities.run().await;
    assert_eq!((Some(job.id), job.priority, job.max_attempts), (written.job, 1, 9));
    let boxed: Boxed = serde_json::from_slice(&job.payload).unwrap();
    assert_eq!((boxed.entity_type.as_str(), boxed.id.as_str(), boxed.version), ("document", "a", 1));
    assert_eq!(Some(boxed.fields), found.fields);
    let bulk = entities.saved(entities.with(Strategy::Batch, entities.put("b", "x"))).await;
    assert_eq!(bulk.strategy, Some(Strategy::Batch));
    assert_eq!(entities.claim_bulk().await.iter().map(|j| Some(j.id)).collect::<Vec<_>>(), [bulk.job]);
}

pub async fn the_same_text_keeps_its_vector(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let job = entities.indexed("a", "x", &[7]).await;
    let dearer = entities.write("a", Change::Put(fields(r#"{"text":"x","title":"t","price":2}"#)));
    let written = entities.saved(dearer).await;
    assert_eq!((written.version, written.state, written.job), (2, IndexState::Indexed, None));
    let found = entities.get("a").await;
    assert_eq!((found.indexed_version, found.job), (Some(2), Some(job)));
    assert_eq!(h.count(JobState::Pending).await, 0, "nothing to embed");
    let mut reader = FeedReader::default();
    reader.drain(&*h.store, 10).await;
    let seen = &reader.seen["a"];
    assert_eq!((seen.version, seen.vector.as_deref(), seen.indexed), (2, Some(&[7][..]), true));
    let other = entities.saved(entities.put("a", "y")).await;
    assert_eq!((other.state, other.strategy), (IndexState::Pending, Some(Strategy::Async)));
    assert_eq!(entities.get("a").await.indexed_version, Some(2), "that is what the index still has");
}

/// The earlier due time is kept. Otherwise frequent writes would postpone the box for ever.
pub async fn a_newer_write_replaces_the_waiting_box(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let old = entities.saved(entities.later(10 * MINUTE, entities.put("a", "one"))).await.job.unwrap();
    let place = h.detail(old).await.job.run_at;
    let new = entities.saved(entities.later(60 * MINUTE, entities.put("a", "two"))).await.job.unwrap();
    assert_eq!(h.state(old).await, JobState::Superseded);
    assert_eq!(h.detail(new).await.job.run_at, place, "the earlier time is kept");
    assert_eq!(entities.get("a").await.job, Some(new));
    let now = entities.saved(entities.put("a", "three")).await.job.unwrap();
    assert!(h.detail(now).await.job.run_at < place, "an earlier time of its own wins");
    h.advance(MINUTE);
    let late = entities.saved(entities.put("a", "four")).await.job.unwrap();
    let run_at = h.detail(late).await.job.run_at.unwrap();
    assert!(run_at.plus(MINUTE / 2) < h.now().await, "a due time in the past is kept too");
    let job = entities.run().await;
    assert_eq!(job.id, late);
    let boxed: Boxed = serde_json::from_slice(&job.payload).unwrap();
    assert_eq!((boxed.version, boxed.fields["text"].as_str()), (4, Some("four")));
    assert_eq!(h.count(JobState::Superseded).await, 3);
}

pub async fn a_newer_write_gets_fresh_attempts(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(entities.put("a", "one")).await;
    for attempt in 1..3 {
        let job = entities.run().await;
        assert_eq!(job.attempt, attempt);
        let again = Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
        assert_eq!(entities.index(entities.failed(&job, "a", "one", again)).await, Settled::Accepted);
    }
    entities.saved(entities.put("a", "two")).await;
    assert_eq!(entities.run().await.attempt, 1);
}

pub async fn the_more_urgent_strategy_wins(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let bulk = entities.saved(entities.with(Strategy::Batch, entities.put("a", "one"))).await;
    assert_eq!(h.detail(bulk.job.unwrap()).await.job.queue, super::OTHER_QUEUE);
    let still = entities.saved(entities.with(Strategy::Batch, entities.put("a", "two"))).await;
    assert_eq!(still.strategy, Some(Strategy::Batch));
    let soon = entities.saved(entities.put("a", "three")).await;
    assert_eq!(soon.strategy, Some(Strategy::Async));
    let kept = entities.saved(entities.with(Strategy::Batch, entities.put("a", "four"))).await;
    assert_eq!(kept.strategy, Some(Strategy::Async), "the waiting box is async");
    assert!(entities.claim_bulk().await.is_empty());
    assert_eq!(Some(entities.run().await.id), kept.job);
    assert_eq!(h.count(JobState::Superseded).await, 3);
}

/// The newer box waits while the older one runs and is retried.
pub async fn a_returned_box_is_superseded_by_a_newer_one(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let back = || Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
    for (id, through_index) in [("a", true), ("b", false)] {
        entities.saved(entities.put(id, "one")).await;
        let old = entities.run().await;
        let new = entities.saved(entities.put(id, "two")).await.job.unwrap();
        assert_eq!((h.state(old.id).await, h.state(new).await), (JobState::Running, JobState::Pending));
        let answer = match through_index {
            true => entities.index(entities.failed(&old, id, "one", back())).await,
            false => h.settle(&old, back()).await,
        };
        assert_eq!(answer, Settled::Superseded, "{id}");
        assert_eq!(h.state(old.id).await, JobState::Superseded);
        let found = entities.get(id).await;
        assert_eq!((found.state, found.job), (IndexState::Pending, Some(new)));
        assert_eq!(entities.run().await.id, new);
    }
}

pub async fn a_sync_write_is_indexed_at_once(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let waiting = entities.saved(entities.put("a", "one")).await.job.unwrap();
    let written = entities.saved(entities.prepared("a", "two", &[2])).await;
    assert_eq!(
        (written.state, written.job, written.strategy),
        (IndexState::Indexed, None, Some(Strategy::Sync))
    );
    assert_eq!(h.state(waiting).await, JobState::Superseded);
    assert!(h.claim(entities.worker, 10).await.is_empty());
    assert_eq!(entities.get("a").await.indexed_version, Some(2));
    let mut reader = FeedReader::default();
    reader.drain(&*h.store, 10).await;
    assert_eq!((reader.seen["a"].vector.as_deref(), reader.seen["a"].indexed), (Some(&[2][..]), true));
    // A vector of other content is ignored, and the write is queued with the most urgent strategy.
    let other = EntityWrite {
        prepared: entities.prepared("a", "two", &[2]).prepared,
        ..entities.prepared("a", "three", &[3])
    };
    let written = entities.saved(other).await;
    assert_eq!((written.state, written.strategy), (IndexState::Pending, Some(Strategy::Async)));
}

pub async fn a_delete_ends_the_waiting_box(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let (a, b) = (entities.saved(entities.put("a", "x")).await, entities.saved(entities.put("b", "x")).await);
    let waiting = [a.job.unwrap(), b.job.unwrap()];
    entities.saved(entities.delete("a")).await;
    assert_eq!(
        (h.state(waiting[0]).await, h.state(waiting[1]).await),
        (JobState::Superseded, JobState::Pending)
    );
    // The box of a recreated entity has its own due time.
    let later = entities.saved(entities.later(MINUTE, entities.put("a", "y"))).await.job.unwrap();
    assert_eq!(h.state(later).await, JobState::Scheduled);
    assert_eq!(h.claim(entities.worker, 10).await.iter().map(|j| j.id).collect::<Vec<_>>(), [waiting[1]]);
}

/// The content is not indexed yet, so the next write creates a box again.
pub async fn the_next_write_replaces_a_cancelled_box(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let first = entities.saved(entities.put("a", "x")).await.job.unwrap();
    assert_eq!(h.act(&[first], Action::Cancel).await, Bulk { done: 1, ..Bulk::default() });
    let second = entities.saved(entities.put("a", "x")).await;
    assert_eq!(second.state, IndexState::Pending);
    assert_eq!(Some(entities.run().await.id), second.job);
    assert_eq!(h.state(first).await, JobState::Cancelled);
}
