//! At most one job per unique key waits, and each policy for a second one.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Enqueued, JobFilter, StoreError};
use windlass_core::{JobState, NewJob, OnConflict, Outcome, RunAt};

use super::Harness;

const MINUTE: Duration = Duration::from_secs(60);

fn at(h: &Harness, on_conflict: OnConflict, delay: Duration) -> NewJob {
    NewJob { run_at: RunAt::In(delay), ..h.unique("k", on_conflict) }
}

pub async fn keep_returns_the_waiting_job(h: Harness) {
    let first = h.put(h.unique("k", OnConflict::Keep)).await;
    let other = NewJob { payload: b"other".to_vec(), ..h.unique("k", OnConflict::Keep) };
    let got = h.store.enqueue(&[other]).await.unwrap();
    assert_eq!(got, [Enqueued { id: first, duplicate: true }]);
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1);
    assert_eq!(h.detail(first).await.job.payload, h.job().payload);
}

pub async fn a_scheduled_job_counts_as_waiting(h: Harness) {
    let first = h.put(at(&h, OnConflict::Keep, MINUTE)).await;
    let got = h.store.enqueue(&[h.unique("k", OnConflict::Keep)]).await.unwrap();
    assert_eq!(got, [Enqueued { id: first, duplicate: true }]);
    assert_eq!(h.state(first).await, JobState::Scheduled);
}

pub async fn reject_names_the_waiting_job(h: Harness) {
    let first = h.put(h.unique("k", OnConflict::Keep)).await;
    match h.store.enqueue(&[h.unique("k", OnConflict::Reject)]).await {
        Err(StoreError::UniqueRejected { key, existing }) => {
            assert_eq!((key.as_str(), existing), ("k", first))
        }
        other => panic!("expected UniqueRejected, got {other:?}"),
    }
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1);
    assert_eq!(h.state(first).await, JobState::Pending);
}

pub async fn replace_supersedes_the_waiting_job(h: Harness) {
    let old = h.put(h.unique("k", OnConflict::Keep)).await;
    let new = h.put(NewJob { payload: b"new".to_vec(), ..h.unique("k", OnConflict::Replace) }).await;
    assert_ne!(old, new);
    let gone = h.detail(old).await.job;
    assert_eq!(gone.state, JobState::Superseded);
    assert!(gone.finished_at.is_some());
    let leased = h.claim(h.worker().await, 10).await;
    assert_eq!(leased.iter().map(|j| j.id).collect::<Vec<_>>(), [new]);
    assert_eq!(leased[0].payload, b"new");
}

/// Otherwise frequent replacements would postpone the job for ever.
pub async fn replace_keeps_the_earlier_time(h: Harness) {
    let old = h.put(at(&h, OnConflict::Keep, 10 * MINUTE)).await;
    let place = h.detail(old).await.job.run_at;
    let later = h.put(at(&h, OnConflict::Replace, 60 * MINUTE)).await;
    assert_eq!(h.detail(later).await.job.run_at, place, "the earlier time is inherited");
    let sooner = h.put(at(&h, OnConflict::Replace, MINUTE)).await;
    assert!(h.detail(sooner).await.job.run_at < place, "an earlier time of its own wins");
    for id in [old, later] {
        assert_eq!(h.state(id).await, JobState::Superseded);
    }
    assert_eq!(h.state(sooner).await, JobState::Scheduled);
}

pub async fn duplicates_in_one_call_are_handled_in_order(h: Harness) {
    let batch = [
        h.unique("a", OnConflict::Keep),
        h.unique("a", OnConflict::Keep),
        h.unique("b", OnConflict::Replace),
        h.unique("b", OnConflict::Replace),
    ];
    let got = h.store.enqueue(&batch).await.unwrap();
    assert_eq!(got[1], Enqueued { id: got[0].id, duplicate: true });
    assert!(!got[2].duplicate && !got[3].duplicate);
    assert_eq!(h.state(got[0].id).await, JobState::Pending);
    assert_eq!(h.state(got[2].id).await, JobState::Superseded);
    assert_eq!(h.state(got[3].id).await, JobState::Pending);
}

pub async fn a_running_job_does_not_hold_its_key(h: Harness) {
    let worker = h.worker().await;
    let first = h.put(h.unique("k", OnConflict::Reject)).await;
    let leased = h.claim_one(worker).await;
    let second = h.put(h.unique("k", OnConflict::Reject)).await;
    assert_eq!(h.state(first).await, JobState::Running);
    assert_eq!(h.state(second).await, JobState::Pending);
    h.done(&leased).await;
    assert_eq!(h.state(first).await, JobState::Completed);
    assert_eq!(h.claim_one(worker).await.id, second);
}

pub async fn one_job_may_wait_while_another_runs(h: Harness) {
    let worker = h.worker().await;
    h.put(h.unique("k", OnConflict::Keep)).await;
    let leased = h.claim_one(worker).await;
    let behind = h.put(h.unique("k", OnConflict::Keep)).await;
    for _ in 0..2 {
        let got = h.store.enqueue(&[h.unique("k", OnConflict::Keep)]).await.unwrap();
        assert_eq!(got, [Enqueued { id: behind, duplicate: true }]);
    }
    assert!(h.store.enqueue(&[h.unique("k", OnConflict::Reject)]).await.is_err());
    let newer = h.put(h.unique("k", OnConflict::Replace)).await;
    assert_eq!(h.count(JobState::Pending).await, 1);
    h.done(&leased).await;
    assert_eq!(h.claim(worker, 10).await.iter().map(|job| job.id).collect::<Vec<_>>(), [newer]);
}

pub async fn a_finished_job_frees_its_key(h: Harness) {
    let worker = h.worker().await;
    h.put(h.unique("k", OnConflict::Reject)).await;
    h.done(&h.claim_one(worker).await).await;
    let cancelled = h.put(h.unique("k", OnConflict::Reject)).await;
    assert_eq!(h.act(&[cancelled], Action::Cancel).await, Bulk { done: 1, ..Bulk::default() });
    h.put(h.unique("k", OnConflict::Reject)).await;
}

/// A job that waits for its retry holds its key.
pub async fn a_returned_job_holds_its_key(h: Harness) {
    let first = h.put(h.unique("k", OnConflict::Reject)).await;
    let leased = h.claim_one(h.worker().await).await;
    h.settle(&leased, Outcome::Retry { after: None, error: "no".to_owned() }).await;
    let got = h.store.enqueue(&[h.unique("k", OnConflict::Keep)]).await.unwrap();
    assert_eq!(got, [Enqueued { id: first, duplicate: true }]);
}

pub async fn two_racing_enqueues_leave_one_waiting(h: Harness) {
    let second = h.open().await;
    for round in 0..20 {
        let job = [h.unique(&format!("k{round}"), OnConflict::Keep)];
        let (one, two) = tokio::join!(h.store.enqueue(&job), second.enqueue(&job));
        let (one, two) = (one.unwrap()[0], two.unwrap()[0]);
        assert_eq!(one.id, two.id, "round {round}");
        assert!(one.duplicate != two.duplicate, "round {round}: exactly one is new");
    }
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 20);
}

pub async fn racing_replacements_leave_one_waiting(h: Harness) {
    let second = h.open().await;
    let job = [h.unique("k", OnConflict::Replace)];
    for _ in 0..20 {
        let (one, two) = tokio::join!(h.store.enqueue(&job), second.enqueue(&job));
        assert_ne!(one.unwrap()[0].id, two.unwrap()[0].id);
    }
    assert_eq!(h.count(JobState::Pending).await, 1);
    assert_eq!(h.count(JobState::Superseded).await, 39);
}

/// A claim takes the waiting job while an enqueue replaces it; both must succeed.
pub async fn replacing_races_claiming(h: Harness) {
    let second = h.open().await;
    let worker = h.worker().await;
    for round in 0..20 {
        let key = format!("k{round}");
        let old = h.put(h.unique(&key, OnConflict::Replace)).await;
        let (job, ask) = ([h.unique(&key, OnConflict::Replace)], h.ask(worker, 10));
        let (new, leased) = tokio::join!(h.store.enqueue(&job), second.claim(&ask));
        let (new, mut leased) = (new.unwrap()[0].id, leased.unwrap());
        let taken = leased.iter().any(|j| j.id == old);
        let expected = if taken { JobState::Running } else { JobState::Superseded };
        assert_eq!(h.state(old).await, expected, "round {round}");
        leased.extend(h.claim(worker, 10).await);
        assert!(leased.iter().any(|j| j.id == new), "round {round}: the new job is leased by now");
        assert_eq!(leased.len(), if taken { 2 } else { 1 }, "round {round}");
        for job in &leased {
            h.done(job).await;
        }
    }
}
