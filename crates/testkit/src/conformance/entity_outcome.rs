//! The state of an entity follows its box, however the box ends: pending while a box may still run, else failed.

use std::time::Duration;

use windlass_core::entity::{EntityWrite, IndexState};
use windlass_core::store::{Action, Bulk, JobFilter, Page, Settled};
use windlass_core::sweep::DEADLY_LEVEL;
use windlass_core::{EntityRef, JobId, JobState, NewJob, Outcome, Store, Strategy};

use super::Harness;
use super::entity_fixture::{EntityFixture, FeedReader};

const DONE: Bulk = Bulk { done: 1, requested: 0, superseded: 0, skipped: 0 };

async fn failed(entities: &EntityFixture<'_>, id: &str, why: &str) {
    let found = entities.get(id).await;
    assert_eq!((found.state, found.error.as_deref()), (IndexState::Failed, Some(why)), "{id}");
}

async fn pending(entities: &EntityFixture<'_>, id: &str) {
    let found = entities.get(id).await;
    assert_eq!((found.state, found.error), (IndexState::Pending, None), "{id}");
}

pub async fn a_cancelled_box_fails_its_entity_until_a_replay(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let job = entities.saved(entities.put("a", "x")).await.job.unwrap();
    let beside = entities.saved(entities.put("b", "x")).await;
    assert_eq!(h.act(&[job], Action::Cancel).await, DONE);
    failed(&entities, "a", "its box was cancelled").await;
    pending(&entities, "b").await;
    assert_eq!(h.store.pending_entities(9).await.unwrap(), 1);
    assert_eq!(h.act(&[job], Action::Retry).await, DONE);
    pending(&entities, "a").await;
    // The waiting box is async, so it stays async.
    let later = entities.saved(entities.with(Strategy::Batch, entities.put("a", "y"))).await;
    assert_eq!(later.strategy, Some(Strategy::Async));
    for (id, text) in [("b", "x"), ("a", "y")] {
        let job = entities.run().await;
        assert_eq!(entities.index(entities.embedded(&job, id, text, &[1])).await, Settled::Accepted);
    }
    assert_eq!(entities.get("a").await.state, IndexState::Indexed);
    assert_eq!(h.state(beside.job.unwrap()).await, JobState::Completed);
}

/// The worker obeys the cancel, or would have returned the job, or is dead.
pub async fn a_cancelled_run_fails_its_entity(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let back = || Outcome::Retry { after: None, error: "no model".to_owned() };
    for how in ["obeyed", "returned", "indexed", "lost", "retired", "disowned"] {
        entities.saved(entities.put(how, "x")).await;
        let worker = h.worker().await;
        let job = h.claim_one(worker).await;
        assert_eq!(h.act(&[job.id], Action::Cancel).await, Bulk { requested: 1, ..Bulk::default() });
        pending(&entities, how).await;
        match how {
            "obeyed" => drop(h.settle(&job, Outcome::Cancelled).await),
            "returned" => assert_eq!(h.settle(&job, back()).await, Settled::Cancelled),
            "indexed" => {
                let done = entities.failed(&job, how, "x", back());
                assert_eq!(entities.index(done).await, Settled::Cancelled);
            }
            "lost" => assert_eq!(h.lose(worker).await.cancelled, 1),
            "retired" => h.store.retire_worker(worker).await.unwrap(),
            _ => assert_eq!(h.store.release_unknown(worker, &[]).await.unwrap(), 1),
        }
        assert_eq!(h.state(job.id).await, JobState::Cancelled, "{how}");
        let why = match how {
            "returned" | "indexed" => "its box was cancelled: no model",
            _ => "its box was cancelled",
        };
        failed(&entities, how, why).await;
        h.act(&[job.id], Action::Retry).await;
        pending(&entities, how).await;
        let job = h.claim_one(h.worker().await).await;
        entities.index(entities.embedded(&job, how, "x", &[1])).await;
        assert_eq!(entities.get(how).await.state, IndexState::Indexed, "{how}");
    }
}

/// The engine settles the jobs of a handler that never answered.
pub async fn a_box_settled_outside_the_index_fails_its_entity(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let once = |id: &str| EntityWrite { max_attempts: Some(1), ..entities.put(id, "x") };
    entities.save(&[once("dead"), once("failed"), once("back")]).await;
    let jobs = h.claim(entities.worker, 10).await;
    let timed_out = || Outcome::Retry { after: None, error: "took too long".to_owned() };
    assert_eq!(h.settle(&jobs[0], timed_out()).await, Settled::Accepted);
    assert_eq!(h.settle(&jobs[1], Outcome::Fail { error: "never".to_owned() }).await, Settled::Accepted);
    assert_eq!(h.settle(&jobs[2], Outcome::HandBack).await, Settled::Accepted);
    assert_eq!(h.state(jobs[0].id).await, JobState::DeadLetter);
    failed(&entities, "dead", "its box is a dead letter: took too long").await;
    failed(&entities, "failed", "its box failed: never").await;
    pending(&entities, "back").await;
    assert_eq!(h.settle(&jobs[2], timed_out()).await, Settled::Stale);
    pending(&entities, "back").await;
    let again = entities.run().await;
    let settlement = super::settlement(&again, Outcome::Fail { error: "here".to_owned() });
    let mut tx = h.store.begin().await.unwrap();
    assert_eq!(h.store.settle_in(tx.tx(), &settlement).await.unwrap(), Settled::Accepted);
    tx.rollback().await.unwrap();
    pending(&entities, "back").await;
    let mut tx = h.store.begin().await.unwrap();
    h.store.settle_in(tx.tx(), &settlement).await.unwrap();
    tx.commit().await.unwrap();
    failed(&entities, "back", "its box failed: here").await;
}

pub async fn a_box_that_kills_its_worker_fails_its_entity(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let job =
        entities.saved(EntityWrite { max_attempts: Some(9), ..entities.put("a", "x") }).await.job.unwrap();
    let worker = h.worker().await;
    h.claim_one(worker).await;
    assert_eq!(h.lose(worker).await.returned, 1);
    for death in 2..=DEADLY_LEVEL {
        pending(&entities, "a").await;
        let lost = h.suspect_dies().await;
        assert_eq!(lost.dead_letters.len(), usize::from(death == DEADLY_LEVEL), "death {death}");
    }
    let why = "its box is a dead letter: its worker process died 6 times while it ran, the last 3 times with no other job";
    failed(&entities, "a", why).await;
    h.act(&[job], Action::Retry).await;
    pending(&entities, "a").await;
}

/// Only the newest box counts.
pub async fn an_older_box_does_not_change_the_entity(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(entities.put("a", "one")).await;
    let old = entities.run().await;
    let new = entities.saved(entities.put("a", "two")).await.job.unwrap();
    assert_eq!(h.settle(&old, Outcome::Fail { error: "never".to_owned() }).await, Settled::Accepted);
    pending(&entities, "a").await;
    assert_eq!(h.act(&[old.id], Action::Retry).await, Bulk { superseded: 1, ..Bulk::default() });
    h.act(&[new], Action::Cancel).await;
    failed(&entities, "a", "its box was cancelled").await;
    // The entity waits for the newer box even if the text is the same.
    let newest = entities.saved(entities.put("a", "two")).await.job.unwrap();
    assert_eq!(h.act(&[new], Action::Retry).await, Bulk { superseded: 1, ..Bulk::default() });
    pending(&entities, "a").await;
    let job = entities.run().await;
    assert_eq!(job.id, newest);
    entities.index(entities.embedded(&job, "a", "two", &[2])).await;
    assert_eq!(entities.get("a").await.state, IndexState::Indexed);
    // The end of an older box undoes neither a sync write nor a delete.
    entities.saved(entities.put("a", "three")).await;
    let job = entities.run().await;
    entities.saved(entities.prepared("a", "three", &[3])).await;
    h.settle(&job, Outcome::Fail { error: "late".to_owned() }).await;
    assert_eq!(entities.get("a").await.state, IndexState::Indexed);
    entities.saved(entities.put("b", "x")).await;
    let job = entities.run().await;
    entities.saved(entities.delete("b")).await;
    h.settle(&job, Outcome::Fail { error: "late".to_owned() }).await;
    h.act(&[job.id], Action::Retry).await;
    let found = entities.get("b").await;
    assert_eq!((found.state, found.error), (IndexState::Deleted, None));
}

pub async fn a_deleted_box_leaves_its_entity_failed(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let job = entities.saved(entities.put("a", "x")).await.job.unwrap();
    h.act(&[job], Action::Cancel).await;
    assert_eq!(h.act(&[job], Action::Delete).await, DONE);
    failed(&entities, "a", "its box was cancelled").await;
    let again = entities.saved(entities.put("a", "x")).await;
    assert_eq!(again.state, IndexState::Pending);
    pending(&entities, "a").await;
    assert_eq!(Some(entities.run().await.id), again.job);
}

/// A job of the application about the same entity.
pub async fn a_job_that_is_no_box_does_not_change_the_entity(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(entities.put("a", "x")).await;
    let about =
        |entity_type: &str| EntityRef { entity_type: entity_type.to_owned(), entity_id: "a".to_owned() };
    for entity in [about("document"), about("unknown")] {
        let job = h.put(NewJob { entity: Some(entity), ..h.job() }).await;
        h.act(&[job], Action::Cancel).await;
        assert_eq!(h.state(job).await, JobState::Cancelled);
    }
    pending(&entities, "a").await;
}

pub async fn many_boxes_end_in_one_call(h: Harness) {
    const COUNT: usize = 600;
    let entities = EntityFixture::new(&h).await;
    let ids: Vec<String> = (0..COUNT).map(|n| format!("e{n}")).collect();
    entities.save(&ids.iter().map(|id| entities.put(id, "x")).collect::<Vec<_>>()).await;
    let all = JobFilter { queue: Some(h.queue), ..JobFilter::default() };
    let cancelled = h.store.act(&all, Action::Cancel, 10_000, None).await.unwrap();
    assert_eq!(cancelled.done, COUNT as u64);
    assert_eq!(h.store.pending_entities(10_000).await.unwrap(), 0);
    failed(&entities, &ids[COUNT - 1], "its box was cancelled").await;
    assert_eq!(h.store.act(&all, Action::Retry, 10_000, None).await.unwrap().done, COUNT as u64);
    assert_eq!(h.store.pending_entities(10_000).await.unwrap(), COUNT as u64);
    let mut reader = FeedReader::default();
    assert_eq!(reader.drain(&*h.store, 100).await.len(), COUNT);
}

/// Checks the state of an entity against its box.
async fn holds(h: &Harness, entities: &EntityFixture<'_>, id: &str, round: usize) {
    let found = entities.get(id).await;
    let job = h.state(found.job.unwrap()).await;
    let wanted = match job {
        JobState::Pending | JobState::Scheduled | JobState::Running => IndexState::Pending,
        JobState::Completed => IndexState::Indexed,
        _ => IndexState::Failed,
    };
    assert_eq!(found.state, wanted, "round {round}, {id}: its box is {job}");
}

async fn act_on(handle: &dyn Store, ids: &[JobId], action: Action) -> Bulk {
    let filter = JobFilter { ids: ids.to_vec(), ..JobFilter::default() };
    handle.act(&filter, action, 1_000, None).await.unwrap()
}

/// An operator, a writer and an indexer work on the same entities: no deadlock, and every state is right.
pub async fn ends_race_writes(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let (operator, indexer) = (h.open().await, h.open().await);
    let ids: Vec<String> = (0..8).map(|n| format!("e{n}")).collect();
    for round in 0..20 {
        let put = |text: &str| ids.iter().rev().map(|id| entities.put(id, text)).collect::<Vec<_>>();
        let (text, newer) = (format!("text {round}"), format!("newer {round}"));
        entities.save(&put(&text)).await;
        let leased = h.claim(entities.worker, 4).await;
        let fail = Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
        let done: Vec<_> = leased.iter().map(|job| super::settlement(job, fail.clone())).collect();
        let page = Page { before: None, limit: 1_000, excerpt: None };
        let boxes = h.store.list(&JobFilter::default(), &page).await.unwrap();
        let boxes: Vec<JobId> = boxes.iter().map(|job| job.id).collect();
        let writes = put(&newer);
        let (_, settled, _) = tokio::join!(
            async {
                act_on(&*operator, &boxes, Action::Cancel).await;
                act_on(&*operator, &boxes, Action::Retry).await;
                act_on(&*operator, &boxes[..boxes.len() / 2], Action::Cancel).await
            },
            indexer.settle(&done),
            entities.save_on(&*h.store, &writes),
        );
        assert!(settled.unwrap().iter().all(|answer| *answer != Settled::Stale), "round {round}");
        for id in &ids {
            holds(&h, &entities, id, round).await;
        }
        h.act(&boxes, Action::Cancel).await;
        for id in &ids {
            holds(&h, &entities, id, round).await;
        }
    }
}
