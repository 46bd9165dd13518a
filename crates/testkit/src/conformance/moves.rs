//! Makes every move of `core::state::MOVES` on a real store, and checks that the two final states are final.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_core::state::MOVES;
use windlass_core::store::{Action, Bulk, Change, JobFilter};
use windlass_core::workflow::OnFailure;
use windlass_core::{JobId, JobState, LeasedJob, NewJob, OnConflict, Outcome, RunAt, WorkerId};

use super::Harness;
use super::workflow_fixture::plan;

/// Further ahead than any case moves its clock.
const FAR: Duration = Duration::from_secs(200 * 86_400);
const MINUTE: Duration = Duration::from_secs(60);

/// A job in a certain state, with its lease if it runs.
struct Placed {
    id: JobId,
    key: String,
    lease: Option<LeasedJob>,
}

fn no() -> String {
    "no".to_owned()
}

fn new_key() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("move {}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Enqueues a job and brings it to `state`. It has the highest priority, so that a claim takes it before other waiting
/// jobs.
async fn place(h: &Harness, worker: WorkerId, state: JobState) -> Placed {
    let key = new_key();
    let job = NewJob { priority: 0, max_attempts: 1, ..h.unique(&key, OnConflict::Reject) };
    let id = match state {
        JobState::Scheduled => h.put(NewJob { priority: 5, run_at: RunAt::In(FAR), ..job }).await,
        JobState::Pending => h.put(NewJob { priority: 5, ..job }).await,
        _ => h.put(job).await,
    };
    let mut placed = Placed { id, key, lease: None };
    let outcome = match state {
        JobState::Scheduled | JobState::Pending => return placed,
        JobState::Cancelled => {
            assert_eq!(h.act(&[id], Action::Cancel).await.done, 1);
            return placed;
        }
        JobState::Superseded => {
            let duplicate = h.put(h.unique(&placed.key, OnConflict::Replace)).await;
            assert_eq!(h.act(&[duplicate], Action::Cancel).await.done, 1);
            assert_eq!(h.act(&[duplicate], Action::Delete).await.done, 1);
            return placed;
        }
        JobState::Running => None,
        JobState::Completed => Some(Outcome::Done { result: None }),
        JobState::Failed => Some(Outcome::Fail { error: no() }),
        JobState::DeadLetter => Some(Outcome::Retry { after: None, error: no() }),
    };
    let lease = h.claim_one(worker).await;
    assert_eq!(lease.id, id, "the most urgent job comes first");
    match outcome {
        Some(outcome) => drop(h.settle(&lease, outcome).await),
        None => placed.lease = Some(lease),
    }
    placed
}

/// One job in each of the eight states.
pub(super) async fn one_in_each_state(h: &Harness) -> Vec<(JobState, JobId)> {
    let worker = h.worker().await;
    let mut each = Vec::new();
    for state in JobState::ALL {
        let id = place(h, worker, state).await.id;
        each.push((state, id));
    }
    for (state, id) in &each {
        assert_eq!(h.state(*id).await, *state);
    }
    each
}

/// Enqueues a duplicate of `placed`.
async fn duplicate(h: &Harness, placed: &Placed) {
    h.put(h.unique(&placed.key, OnConflict::Replace)).await;
}

/// Makes the move. A new row of the table needs its own arm here.
async fn walk(h: &Harness, worker: WorkerId, placed: &Placed, from: JobState, to: JobState) {
    use JobState::*;
    let change = |run_at| Change { priority: None, run_at: Some(run_at) };
    match (from, to) {
        (Scheduled, Pending) => {
            assert!(h.store.change(placed.id, &change(h.now().await.plus(MINUTE)), None).await.unwrap());
            assert_eq!(h.state(placed.id).await, Scheduled);
            h.advance(2 * MINUTE);
        }
        (Pending, Scheduled) => {
            assert!(h.store.change(placed.id, &change(h.now().await.plus(MINUTE)), None).await.unwrap());
        }
        (Scheduled | Pending, Cancelled) => assert_eq!(h.act(&[placed.id], Action::Cancel).await.done, 1),
        (Scheduled | Pending, Superseded) => duplicate(h, placed).await,
        (Pending, Running) => assert_eq!(h.claim_one(worker).await.id, placed.id),
        (Running, to) => end_run(h, worker, placed, to).await,
        (Failed | DeadLetter | Cancelled, Pending) => {
            assert_eq!(h.act(&[placed.id], Action::Retry).await, Bulk { done: 1, ..Bulk::default() });
        }
        (Failed | DeadLetter | Cancelled, Superseded) => {
            duplicate(h, placed).await;
            let got = h.act(&[placed.id], Action::Retry).await;
            assert_eq!(got, Bulk { superseded: 1, ..Bulk::default() });
        }
        (from, to) => panic!("this test cannot move a job from {from} to {to}: add an arm"),
    }
}

async fn end_run(h: &Harness, worker: WorkerId, placed: &Placed, to: JobState) {
    let lease = placed.lease.as_ref().unwrap();
    let outcome = match to {
        JobState::Completed => Outcome::Done { result: None },
        JobState::Scheduled => Outcome::snooze(FAR),
        JobState::Failed => Outcome::Fail { error: no() },
        JobState::DeadLetter => Outcome::Retry { after: None, error: no() },
        JobState::Pending => {
            h.store.retire_worker(worker).await.unwrap();
            return;
        }
        JobState::Cancelled => {
            assert_eq!(h.act(&[placed.id], Action::Cancel).await.requested, 1);
            Outcome::HandBack
        }
        JobState::Superseded => {
            duplicate(h, placed).await;
            Outcome::HandBack
        }
        JobState::Running => panic!("a run does not become itself"),
    };
    h.settle(lease, outcome).await;
}

/// A child that ended in `from` after its parent failed; both are replayed.
async fn replay_with_a_parent(h: &Harness, worker: WorkerId, from: JobState) {
    let mut workflow = plan(h, OnFailure::Continue, &[("a", &[]), ("b", &["a"])]);
    for member in &mut workflow.members {
        (member.job.priority, member.job.max_attempts) = (0, 1);
    }
    let started = h.store.enqueue_workflow(&workflow).await.unwrap();
    let parent = h.claim_one(worker).await;
    h.settle(&parent, Outcome::Fail { error: no() }).await;
    let child = started.jobs[1];
    if from == JobState::Cancelled {
        assert_eq!(h.act(&[child], Action::Cancel).await.done, 1);
    } else {
        let lease = h.claim_one(worker).await;
        let outcome = match from {
            JobState::Failed => Outcome::Fail { error: no() },
            _ => Outcome::Retry { after: None, error: no() },
        };
        h.settle(&lease, outcome).await;
    }
    assert_eq!(h.state(child).await, from);
    assert_eq!(h.store.retry_workflow(started.id, None).await.unwrap().unwrap().done, 2);
    assert_eq!(h.state(child).await, JobState::Scheduled, "{from}");
    h.store.cancel_workflow(started.id, None).await.unwrap();
}

pub async fn every_legal_move_can_be_made(h: Harness) {
    for (from, to, why) in MOVES {
        let worker = h.worker().await;
        if from.is_finished() && *to == JobState::Scheduled {
            replay_with_a_parent(&h, worker, *from).await;
            continue;
        }
        let placed = place(&h, worker, *from).await;
        assert_eq!(h.state(placed.id).await, *from, "{from} → {to}: {why}");
        walk(&h, worker, &placed, *from, *to).await;
        assert_eq!(h.state(placed.id).await, *to, "{from} → {to}: {why}");
        let found = h.store.count(&super::only(placed.id)).await.unwrap();
        assert_eq!(found, 1, "{from} → {to}: a job is in one place");
        // Jobs of this move must not be claimed in the next. One move has already retired the worker.
        let _ = h.store.retire_worker(worker).await;
        let waiting =
            JobFilter { states: vec![JobState::Scheduled, JobState::Pending], ..JobFilter::default() };
        h.store.act(&waiting, Action::Cancel, 1_000, None).await.unwrap();
    }
}

pub async fn final_states_are_final(h: Harness) {
    let worker = h.worker().await;
    for state in [JobState::Completed, JobState::Superseded] {
        let id = place(&h, worker, state).await.id;
        let before = format!("{:?}", h.detail(id).await);
        for action in [Action::Retry, Action::Cancel] {
            let got = h.act(&[id], action).await;
            assert_eq!(got, Bulk { skipped: 1, ..Bulk::default() }, "{action:?} of {state}");
        }
        let change = Change { priority: Some(0), run_at: Some(h.now().await) };
        assert!(!h.store.change(id, &change, None).await.unwrap());
        assert!(h.claim(worker, 10).await.is_empty());
        assert_eq!(format!("{:?}", h.detail(id).await), before, "{state}");
    }
}
