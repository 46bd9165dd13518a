//! An entity's state is true however its box ends: failed without one that could still come, pending while one can.

use std::time::Duration;

use windlass_core::entity::{EntityWrite, IndexState};
use windlass_core::store::{Action, Bulk, JobFilter, Page, Settled};
use windlass_core::sweep::MAX_LONE_CRASHES;
use windlass_core::{EntityRef, JobId, JobState, NewJob, Outcome, Store, Strategy};

use super::Harness;
use super::shelf::{Follower, Shelf};

const DONE: Bulk = Bulk { done: 1, requested: 0, superseded: 0, skipped: 0 };

async fn failed(shelf: &Shelf<'_>, id: &str, why: &str) {
    let found = shelf.get(id).await;
    assert_eq!((found.state, found.error.as_deref()), (IndexState::Failed, Some(why)), "{id}");
}

async fn pending(shelf: &Shelf<'_>, id: &str) {
    let found = shelf.get(id).await;
    assert_eq!((found.state, found.error), (IndexState::Pending, None), "{id}");
}

pub async fn a_cancelled_box_fails_its_entity_and_a_replay_mends_it(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let job = shelf.saved(shelf.put("a", "x")).await.job.unwrap();
    let beside = shelf.saved(shelf.put("b", "x")).await;
    assert_eq!(h.act(&[job], Action::Cancel).await, DONE);
    failed(&shelf, "a", "its box was cancelled").await;
    pending(&shelf, "b").await;
    assert_eq!(h.store.pending_entities(9).await.unwrap(), 1);
    assert_eq!(h.act(&[job], Action::Retry).await, DONE);
    pending(&shelf, "a").await;
    // It was promised soon, and still is.
    let later = shelf.saved(shelf.with(Strategy::Batch, shelf.put("a", "y"))).await;
    assert_eq!(later.strategy, Some(Strategy::Async));
    for (id, text) in [("b", "x"), ("a", "y")] {
        let job = shelf.run().await;
        assert_eq!(shelf.index(shelf.embedded(&job, id, text, &[1])).await, Settled::Accepted);
    }
    assert_eq!(shelf.get("a").await.state, IndexState::Indexed);
    assert_eq!(h.state(beside.job.unwrap()).await, JobState::Completed);
}

/// The worker obeys, or would have given it back, or is gone.
pub async fn a_cancelled_run_fails_its_entity(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let back = || Outcome::Retry { after: None, error: "no model".to_owned() };
    for how in ["obeyed", "returned", "indexed", "lost", "retired", "disowned"] {
        shelf.saved(shelf.put(how, "x")).await;
        let worker = h.worker().await;
        let job = h.claim_one(worker).await;
        assert_eq!(h.act(&[job.id], Action::Cancel).await, Bulk { requested: 1, ..Bulk::default() });
        pending(&shelf, how).await;
        match how {
            "obeyed" => drop(h.settle(&job, Outcome::Cancelled).await),
            "returned" => assert_eq!(h.settle(&job, back()).await, Settled::Cancelled),
            "indexed" => {
                let done = shelf.failed(&job, how, "x", back());
                assert_eq!(shelf.index(done).await, Settled::Cancelled);
            }
            "lost" => assert_eq!(h.lose(worker).await.cancelled, 1),
            "retired" => h.store.retire_worker(worker).await.unwrap(),
            _ => assert_eq!(h.store.disown(worker, &[]).await.unwrap(), 1),
        }
        assert_eq!(h.state(job.id).await, JobState::Cancelled, "{how}");
        let why = match how {
            "returned" | "indexed" => "its box was cancelled: no model",
            _ => "its box was cancelled",
        };
        failed(&shelf, how, why).await;
        h.act(&[job.id], Action::Retry).await;
        pending(&shelf, how).await;
        let job = h.claim_one(h.worker().await).await;
        shelf.index(shelf.embedded(&job, how, "x", &[1])).await;
        assert_eq!(shelf.get(how).await.state, IndexState::Indexed, "{how}");
    }
}

/// A handler that never answered: the engine settles what it was given.
pub async fn a_box_settled_outside_the_index_fails_its_entity(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let once = |id: &str| EntityWrite { max_attempts: Some(1), ..shelf.put(id, "x") };
    shelf.save(&[once("dead"), once("failed"), once("back")]).await;
    let jobs = h.claim(shelf.worker, 10).await;
    let timed_out = || Outcome::Retry { after: None, error: "took too long".to_owned() };
    assert_eq!(h.settle(&jobs[0], timed_out()).await, Settled::Accepted);
    assert_eq!(h.settle(&jobs[1], Outcome::Fail { error: "never".to_owned() }).await, Settled::Accepted);
    assert_eq!(h.settle(&jobs[2], Outcome::HandBack).await, Settled::Accepted);
    assert_eq!(h.state(jobs[0].id).await, JobState::DeadLetter);
    failed(&shelf, "dead", "its box is a dead letter: took too long").await;
    failed(&shelf, "failed", "its box failed: never").await;
    pending(&shelf, "back").await;
    assert_eq!(h.settle(&jobs[2], timed_out()).await, Settled::Stale);
    pending(&shelf, "back").await;
    let again = shelf.run().await;
    let settlement = super::settlement(&again, Outcome::Fail { error: "here".to_owned() });
    let mut tx = h.store.begin().await.unwrap();
    assert_eq!(h.store.settle_in(tx.tx(), &settlement).await.unwrap(), Settled::Accepted);
    tx.rollback().await.unwrap();
    pending(&shelf, "back").await;
    let mut tx = h.store.begin().await.unwrap();
    h.store.settle_in(tx.tx(), &settlement).await.unwrap();
    tx.commit().await.unwrap();
    failed(&shelf, "back", "its box failed: here").await;
}

pub async fn a_box_that_kills_its_worker_fails_its_entity(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let job = shelf.saved(EntityWrite { max_attempts: Some(9), ..shelf.put("a", "x") }).await.job.unwrap();
    let worker = h.worker().await;
    h.claim_one(worker).await;
    assert_eq!(h.lose(worker).await.suspects, 1);
    for crash in 1..=MAX_LONE_CRASHES {
        pending(&shelf, "a").await;
        let worker = h.worker().await;
        h.claim_suspect(worker).await.unwrap();
        let lost = h.lose(worker).await;
        assert_eq!(lost.dead_letters.len(), usize::from(crash == MAX_LONE_CRASHES), "crash {crash}");
    }
    let why = format!(
        "its box is a dead letter: its worker process died {MAX_LONE_CRASHES} times while running it alone"
    );
    failed(&shelf, "a", &why).await;
    h.act(&[job], Action::Retry).await;
    pending(&shelf, "a").await;
}

/// Only the box it waits for counts.
pub async fn an_older_box_says_nothing(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.saved(shelf.put("a", "one")).await;
    let old = shelf.run().await;
    let new = shelf.saved(shelf.put("a", "two")).await.job.unwrap();
    assert_eq!(h.settle(&old, Outcome::Fail { error: "never".to_owned() }).await, Settled::Accepted);
    pending(&shelf, "a").await;
    assert_eq!(h.act(&[old.id], Action::Retry).await, Bulk { superseded: 1, ..Bulk::default() });
    h.act(&[new], Action::Cancel).await;
    failed(&shelf, "a", "its box was cancelled").await;
    // Its text may be the same: still it waits for the newer box.
    let newest = shelf.saved(shelf.put("a", "two")).await.job.unwrap();
    assert_eq!(h.act(&[new], Action::Retry).await, Bulk { superseded: 1, ..Bulk::default() });
    pending(&shelf, "a").await;
    let job = shelf.run().await;
    assert_eq!(job.id, newest);
    shelf.index(shelf.embedded(&job, "a", "two", &[2])).await;
    assert_eq!(shelf.get("a").await.state, IndexState::Indexed);
    // Indexed by the way, deleted by the way: neither is undone.
    shelf.saved(shelf.put("a", "three")).await;
    let job = shelf.run().await;
    shelf.saved(shelf.prepared("a", "three", &[3])).await;
    h.settle(&job, Outcome::Fail { error: "late".to_owned() }).await;
    assert_eq!(shelf.get("a").await.state, IndexState::Indexed);
    shelf.saved(shelf.put("b", "x")).await;
    let job = shelf.run().await;
    shelf.saved(shelf.delete("b")).await;
    h.settle(&job, Outcome::Fail { error: "late".to_owned() }).await;
    h.act(&[job.id], Action::Retry).await;
    let found = shelf.get("b").await;
    assert_eq!((found.state, found.error), (IndexState::Deleted, None));
}

pub async fn a_deleted_box_leaves_it_failed_until_the_next_write(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let job = shelf.saved(shelf.put("a", "x")).await.job.unwrap();
    h.act(&[job], Action::Cancel).await;
    assert_eq!(h.act(&[job], Action::Delete).await, DONE);
    failed(&shelf, "a", "its box was cancelled").await;
    let again = shelf.saved(shelf.put("a", "x")).await;
    assert_eq!(again.state, IndexState::Pending);
    pending(&shelf, "a").await;
    assert_eq!(Some(shelf.run().await.id), again.job);
}

/// A job of the application's own about the same entity.
pub async fn a_job_that_is_no_box_says_nothing(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.saved(shelf.put("a", "x")).await;
    let about =
        |entity_type: &str| EntityRef { entity_type: entity_type.to_owned(), entity_id: "a".to_owned() };
    for entity in [about("document"), about("unknown")] {
        let job = h.put(NewJob { entity: Some(entity), ..h.job() }).await;
        h.act(&[job], Action::Cancel).await;
        assert_eq!(h.state(job).await, JobState::Cancelled);
    }
    pending(&shelf, "a").await;
}

pub async fn many_at_once(h: Harness) {
    const COUNT: usize = 600;
    let shelf = Shelf::new(&h).await;
    let ids: Vec<String> = (0..COUNT).map(|n| format!("e{n}")).collect();
    shelf.save(&ids.iter().map(|id| shelf.put(id, "x")).collect::<Vec<_>>()).await;
    let all = JobFilter { queue: Some(h.queue), ..JobFilter::default() };
    let cancelled = h.store.act(&all, Action::Cancel, 10_000, None).await.unwrap();
    assert_eq!(cancelled.done, COUNT as u64);
    assert_eq!(h.store.pending_entities(10_000).await.unwrap(), 0);
    failed(&shelf, &ids[COUNT - 1], "its box was cancelled").await;
    assert_eq!(h.store.act(&all, Action::Retry, 10_000, None).await.unwrap().done, COUNT as u64);
    assert_eq!(h.store.pending_entities(10_000).await.unwrap(), COUNT as u64);
    let mut follower = Follower::default();
    assert_eq!(follower.drain(&*h.store, 100).await.len(), COUNT);
}

/// Whether the state is what the box it names says.
async fn holds(h: &Harness, shelf: &Shelf<'_>, id: &str, round: usize) {
    let found = shelf.get(id).await;
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

/// An operator, a writer and an indexer at the same entities: nobody waits for ever, and every state is true.
pub async fn ends_race_writes(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let (operator, indexer) = (h.open().await, h.open().await);
    let ids: Vec<String> = (0..8).map(|n| format!("e{n}")).collect();
    for round in 0..20 {
        let put = |text: &str| ids.iter().rev().map(|id| shelf.put(id, text)).collect::<Vec<_>>();
        let (text, newer) = (format!("text {round}"), format!("newer {round}"));
        shelf.save(&put(&text)).await;
        let leased = h.claim(shelf.worker, 4).await;
        let fail = Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
        let done: Vec<_> = leased.iter().map(|job| super::settlement(job, fail.clone())).collect();
        let page = Page { before: None, limit: 1_000 };
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
            shelf.save_on(&*h.store, &writes),
        );
        assert!(settled.unwrap().iter().all(|answer| *answer != Settled::Stale), "round {round}");
        for id in &ids {
            holds(&h, &shelf, id, round).await;
        }
        h.act(&boxes, Action::Cancel).await;
        for id in &ids {
            holds(&h, &shelf, id, round).await;
        }
    }
}
