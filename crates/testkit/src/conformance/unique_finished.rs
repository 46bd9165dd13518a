//! Unique keys held until the job has finished: no second job with the key is accepted before that.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Enqueued, JobFilter, Settled, StoreError};
use windlass_core::{JobState, NewJob, OnConflict, Outcome, Unique};

use super::Harness;

fn job(h: &Harness, on_conflict: OnConflict) -> NewJob {
    NewJob { unique: Some(Unique::new("k", on_conflict)), ..h.job() }
}

async fn is_refused(h: &Harness) -> bool {
    matches!(h.store.enqueue(&[job(h, OnConflict::Reject)]).await, Err(StoreError::UniqueRejected { .. }))
}

pub async fn a_running_job_keeps_its_key(h: Harness) {
    let worker = h.worker().await;
    let first = h.put(job(&h, OnConflict::Keep)).await;
    assert!(is_refused(&h).await, "it waits");
    let leased = h.claim_one(worker).await;
    assert!(leased.holds_key);
    assert!(is_refused(&h).await, "it runs");
    let got = h.store.enqueue(&[job(&h, OnConflict::Keep)]).await.unwrap();
    assert_eq!(got, [Enqueued { id: first, duplicate: true }]);
    h.done(&leased).await;
    assert!(!is_refused(&h).await);
}

/// For every way to end.
pub async fn a_key_is_free_when_its_job_ends(h: Harness) {
    let worker = h.worker().await;
    for outcome in [Outcome::Done { result: None }, Outcome::Fail { error: "no".to_owned() }] {
        h.put(job(&h, OnConflict::Reject)).await;
        let leased = h.claim_one(worker).await;
        assert_eq!(h.settle(&leased, outcome).await, Settled::Accepted);
    }
    let waiting = h.put(job(&h, OnConflict::Reject)).await;
    assert_eq!(h.act(&[waiting], Action::Cancel).await.done, 1);
    let running = h.put(job(&h, OnConflict::Reject)).await;
    let leased = h.claim_one(worker).await;
    assert_eq!(h.act(&[running], Action::Cancel).await.requested, 1);
    assert_eq!(h.settle(&leased, Outcome::HandBack).await, Settled::Cancelled);
    let lost = h.put(job(&h, OnConflict::Reject)).await;
    h.claim_one(worker).await;
    assert_eq!(h.act(&[lost], Action::Cancel).await.requested, 1);
    h.lose(worker).await;
    assert_eq!(h.state(lost).await, JobState::Cancelled);
    h.put(job(&h, OnConflict::Reject)).await;
}

pub async fn a_retry_keeps_its_key(h: Harness) {
    let worker = h.worker().await;
    h.put(job(&h, OnConflict::Reject)).await;
    let leased = h.claim_one(worker).await;
    let retry = Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
    assert_eq!(h.settle(&leased, retry).await, Settled::Accepted);
    assert!(is_refused(&h).await);
    let again = h.claim_one(worker).await;
    assert_eq!(again.id, leased.id);
    h.done(&again).await;
    assert!(!is_refused(&h).await);
}

pub async fn keep_returns_the_holder_of_the_key(h: Harness) {
    let first = h.put(job(&h, OnConflict::Keep)).await;
    let got = h.store.enqueue(&[job(&h, OnConflict::Keep)]).await.unwrap();
    assert_eq!(got, [Enqueued { id: first, duplicate: true }]);
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1);
}

pub async fn replace_supersedes_only_a_waiting_holder(h: Harness) {
    let worker = h.worker().await;
    let old = h.put(job(&h, OnConflict::Keep)).await;
    let new = h.put(job(&h, OnConflict::Replace)).await;
    assert_eq!(h.state(old).await, JobState::Superseded);
    let leased = h.claim_one(worker).await;
    assert_eq!(leased.id, new);
    let got = h.store.enqueue(&[job(&h, OnConflict::Replace)]).await.unwrap();
    assert_eq!(got, [Enqueued { id: new, duplicate: true }], "a running job cannot be replaced");
    h.done(&leased).await;
    assert!(!is_refused(&h).await, "the key went with the new job");
}

pub async fn duplicates_in_one_call_are_handled_in_order(h: Harness) {
    let batch = [job(&h, OnConflict::Keep), job(&h, OnConflict::Keep), job(&h, OnConflict::Replace)];
    let got = h.store.enqueue(&batch).await.unwrap();
    assert_eq!(got[1], Enqueued { id: got[0].id, duplicate: true });
    assert!(!got[2].duplicate);
    assert_eq!(h.state(got[0].id).await, JobState::Superseded);
    assert_eq!(h.state(got[2].id).await, JobState::Pending);
}

/// If another job holds the key, the replayed job ends superseded.
pub async fn a_replay_takes_its_key_again(h: Harness) {
    let worker = h.worker().await;
    let mut failed = Vec::new();
    for _ in 0..2 {
        failed.push(h.put(job(&h, OnConflict::Reject)).await);
        let leased = h.claim_one(worker).await;
        h.settle(&leased, Outcome::Fail { error: "no".to_owned() }).await;
    }
    assert_eq!(h.act(&failed[..1], Action::Retry).await, Bulk { done: 1, ..Bulk::default() });
    assert!(is_refused(&h).await);
    assert_eq!(h.act(&failed[1..], Action::Retry).await, Bulk { superseded: 1, ..Bulk::default() });
    assert_eq!(h.state(failed[1]).await, JobState::Superseded);
    h.done(&h.claim_one(worker).await).await;
    assert!(!is_refused(&h).await);
}

pub async fn a_rolled_back_enqueue_leaves_no_key(h: Harness) {
    let mut tx = h.store.begin().await.unwrap();
    h.store.enqueue_in(tx.tx(), &[job(&h, OnConflict::Reject)]).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(!is_refused(&h).await);
}

pub async fn racing_enqueues_accept_one(h: Harness) {
    let second = h.open().await;
    for round in 0..20 {
        let unique = Some(Unique::new(format!("k{round}"), OnConflict::Keep));
        let job = [NewJob { unique, ..h.job() }];
        let (one, two) = tokio::join!(h.store.enqueue(&job), second.enqueue(&job));
        let (one, two) = (one.unwrap()[0], two.unwrap()[0]);
        assert_eq!(one.id, two.id, "round {round}");
        assert!(one.duplicate != two.duplicate, "round {round}: exactly one is new");
    }
}

/// At most one job per key waits, whether it holds the key until start or until finish.
pub async fn both_kinds_of_unique_key_exclude_each_other(h: Harness) {
    let first = h.put(h.unique("k", OnConflict::Keep)).await;
    let met = h.store.enqueue(&[job(&h, OnConflict::Keep)]).await.unwrap();
    assert_eq!(met, [Enqueued { id: first, duplicate: true }]);
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let second = h.put(job(&h, OnConflict::Keep)).await;
    let met = h.store.enqueue(&[h.unique("k", OnConflict::Keep)]).await.unwrap();
    assert_eq!(met, [Enqueued { id: second, duplicate: true }]);
    h.done(&leased).await;
    h.done(&h.claim_one(worker).await).await;
    assert!(!is_refused(&h).await);
}
