//! At most one box waits per entity: what becomes of it when newer content comes, and when none is left.

use std::time::Duration;

use windlass_core::entity::{Boxed, Change, EntityWrite, IndexState};
use windlass_core::store::{Action, Bulk, Settled};
use windlass_core::{JobState, Outcome, Strategy};

use super::Harness;
use super::shelf::{Follower, Shelf, fields};

const MINUTE: Duration = Duration::from_secs(60);

pub async fn a_new_text_is_boxed(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let urgent = EntityWrite { priority: Some(1), max_attempts: Some(9), ..shelf.put("a", "x") };
    let written = shelf.saved(urgent).await;
    assert_eq!((written.state, written.strategy), (IndexState::Pending, Some(Strategy::Async)));
    let found = shelf.get("a").await;
    assert_eq!((found.state, found.job, found.indexed_version), (IndexState::Pending, written.job, None));
    let job = shelf.run().await;
    assert_eq!((Some(job.id), job.priority, job.max_attempts), (written.job, 1, 9));
    let boxed: Boxed = serde_json::from_slice(&job.payload).unwrap();
    assert_eq!((boxed.entity_type.as_str(), boxed.id.as_str(), boxed.version), ("document", "a", 1));
    assert_eq!(Some(boxed.fields), found.fields);
    let bulk = shelf.saved(shelf.with(Strategy::Batch, shelf.put("b", "x"))).await;
    assert_eq!(bulk.strategy, Some(Strategy::Batch));
    assert_eq!(shelf.claim_bulk().await.iter().map(|j| Some(j.id)).collect::<Vec<_>>(), [bulk.job]);
}

pub async fn the_same_text_keeps_its_vector(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let job = shelf.indexed("a", "x", &[7]).await;
    let dearer = shelf.write("a", Change::Put(fields(r#"{"text":"x","title":"t","price":2}"#)));
    let written = shelf.saved(dearer).await;
    assert_eq!((written.version, written.state, written.job), (2, IndexState::Indexed, None));
    let found = shelf.get("a").await;
    assert_eq!((found.indexed_version, found.job), (Some(2), Some(job)));
    assert_eq!(h.count(JobState::Pending).await, 0, "nothing to embed");
    let mut follower = Follower::default();
    follower.drain(&*h.store, 10).await;
    let seen = &follower.seen["a"];
    assert_eq!((seen.version, seen.vector.as_deref(), seen.indexed), (2, Some(&[7][..]), true));
    let other = shelf.saved(shelf.put("a", "y")).await;
    assert_eq!((other.state, other.strategy), (IndexState::Pending, Some(Strategy::Async)));
    assert_eq!(shelf.get("a").await.indexed_version, Some(2), "that is what the index still has");
}

/// Steady writes of one entity would otherwise push its box ahead of them for ever.
pub async fn a_newer_write_takes_the_place_of_the_waiting_box(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let old = shelf.saved(shelf.later(10 * MINUTE, shelf.put("a", "one"))).await.job.unwrap();
    let place = h.detail(old).await.job.run_at;
    let new = shelf.saved(shelf.later(60 * MINUTE, shelf.put("a", "two"))).await.job.unwrap();
    assert_eq!(h.state(old).await, JobState::Superseded);
    assert_eq!(h.detail(new).await.job.run_at, place, "the earlier time is kept");
    assert_eq!(shelf.get("a").await.job, Some(new));
    let now = shelf.saved(shelf.put("a", "three")).await.job.unwrap();
    assert!(h.detail(now).await.job.run_at < place, "an earlier time of its own wins");
    h.advance(MINUTE);
    let late = shelf.saved(shelf.put("a", "four")).await.job.unwrap();
    let stood = h.detail(late).await.job.run_at.unwrap();
    assert!(stood.plus(MINUTE / 2) < h.now().await, "a place in the past is a place too");
    let job = shelf.run().await;
    assert_eq!(job.id, late);
    let boxed: Boxed = serde_json::from_slice(&job.payload).unwrap();
    assert_eq!((boxed.version, boxed.fields["text"].as_str()), (4, Some("four")));
    assert_eq!(h.count(JobState::Superseded).await, 3);
}

pub async fn a_newer_write_starts_its_attempts_anew(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.saved(shelf.put("a", "one")).await;
    for attempt in 1..3 {
        let job = shelf.run().await;
        assert_eq!(job.attempt, attempt);
        let again = Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
        assert_eq!(shelf.index(shelf.failed(&job, "a", "one", again)).await, Settled::Accepted);
    }
    shelf.saved(shelf.put("a", "two")).await;
    assert_eq!(shelf.run().await.attempt, 1);
}

pub async fn the_more_urgent_strategy_wins(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let bulk = shelf.saved(shelf.with(Strategy::Batch, shelf.put("a", "one"))).await;
    assert_eq!(h.detail(bulk.job.unwrap()).await.job.queue, super::OTHER_QUEUE);
    let still = shelf.saved(shelf.with(Strategy::Batch, shelf.put("a", "two"))).await;
    assert_eq!(still.strategy, Some(Strategy::Batch));
    let soon = shelf.saved(shelf.put("a", "three")).await;
    assert_eq!(soon.strategy, Some(Strategy::Async));
    let kept = shelf.saved(shelf.with(Strategy::Batch, shelf.put("a", "four"))).await;
    assert_eq!(kept.strategy, Some(Strategy::Async), "it had been promised soon");
    assert!(shelf.claim_bulk().await.is_empty());
    assert_eq!(Some(shelf.run().await.id), kept.job);
    assert_eq!(h.count(JobState::Superseded).await, 3);
}

/// The newer box waits while the older one runs, fails and wants to come back.
pub async fn a_box_that_comes_back_meets_the_newer_one(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let back = || Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
    for (id, through_index) in [("a", true), ("b", false)] {
        shelf.saved(shelf.put(id, "one")).await;
        let old = shelf.run().await;
        let new = shelf.saved(shelf.put(id, "two")).await.job.unwrap();
        assert_eq!((h.state(old.id).await, h.state(new).await), (JobState::Running, JobState::Pending));
        let answer = match through_index {
            true => shelf.index(shelf.failed(&old, id, "one", back())).await,
            false => h.settle(&old, back()).await,
        };
        assert_eq!(answer, Settled::Superseded, "{id}");
        assert_eq!(h.state(old.id).await, JobState::Superseded);
        let found = shelf.get(id).await;
        assert_eq!((found.state, found.job), (IndexState::Pending, Some(new)));
        assert_eq!(shelf.run().await.id, new);
    }
}

pub async fn a_sync_write_is_indexed_at_once(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let waiting = shelf.saved(shelf.put("a", "one")).await.job.unwrap();
    let written = shelf.saved(shelf.prepared("a", "two", &[2])).await;
    assert_eq!(
        (written.state, written.job, written.strategy),
        (IndexState::Indexed, None, Some(Strategy::Sync))
    );
    assert_eq!(h.state(waiting).await, JobState::Superseded);
    assert!(h.claim(shelf.worker, 10).await.is_empty());
    assert_eq!(shelf.get("a").await.indexed_version, Some(2));
    let mut follower = Follower::default();
    follower.drain(&*h.store, 10).await;
    assert_eq!((follower.seen["a"].vector.as_deref(), follower.seen["a"].indexed), (Some(&[2][..]), true));
    // A vector of other content is none: queued as urgently as can be.
    let other = EntityWrite {
        prepared: shelf.prepared("a", "two", &[2]).prepared,
        ..shelf.prepared("a", "three", &[3])
    };
    let written = shelf.saved(other).await;
    assert_eq!((written.state, written.strategy), (IndexState::Pending, Some(Strategy::Async)));
}

pub async fn a_delete_ends_the_waiting_box(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let (a, b) = (shelf.saved(shelf.put("a", "x")).await, shelf.saved(shelf.put("b", "x")).await);
    let waiting = [a.job.unwrap(), b.job.unwrap()];
    shelf.saved(shelf.delete("a")).await;
    assert_eq!(
        (h.state(waiting[0]).await, h.state(waiting[1]).await),
        (JobState::Superseded, JobState::Pending)
    );
    // Made again, its box begins with its own time.
    let later = shelf.saved(shelf.later(MINUTE, shelf.put("a", "y"))).await.job.unwrap();
    assert_eq!(h.state(later).await, JobState::Scheduled);
    assert_eq!(h.claim(shelf.worker, 10).await.iter().map(|j| j.id).collect::<Vec<_>>(), [waiting[1]]);
}

/// Its box is gone, its content is not: the next write boxes it again.
pub async fn a_cancelled_box_is_made_again_by_the_next_write(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let first = shelf.saved(shelf.put("a", "x")).await.job.unwrap();
    assert_eq!(h.act(&[first], Action::Cancel).await, Bulk { done: 1, ..Bulk::default() });
    let second = shelf.saved(shelf.put("a", "x")).await;
    assert_eq!(second.state, IndexState::Pending);
    assert_eq!(Some(shelf.run().await.id), second.job);
    assert_eq!(h.state(first).await, JobState::Cancelled);
}
