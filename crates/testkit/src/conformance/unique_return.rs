//! A job that returns while a duplicate with its unique key waits ends `superseded`, without effect on the duplicate or
//! on the rest of the batch.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Reclaimed, Settled};
use windlass_core::{JobId, JobState, LeasedJob, OnConflict, Outcome, WorkerId};

use super::{Harness, settlement};

struct DuplicateSetup {
    worker: WorkerId,
    /// Runs while a duplicate waits.
    leased: LeasedJob,
    duplicate: JobId,
    /// Runs in the same claim and has no duplicate.
    neighbour: LeasedJob,
}

async fn running_with_duplicate(h: &Harness) -> DuplicateSetup {
    let worker = h.worker().await;
    h.put(h.unique("k", OnConflict::Reject)).await;
    h.put(h.job()).await;
    let mut leased = h.claim(worker, 2).await;
    let duplicate = h.put(h.unique("k", OnConflict::Reject)).await;
    let neighbour = leased.pop().unwrap();
    DuplicateSetup { worker, leased: leased.pop().unwrap(), duplicate, neighbour }
}

async fn check(h: &Harness, setup: &DuplicateSetup) {
    let gone = h.detail(setup.leased.id).await;
    assert_eq!(gone.job.state, JobState::Superseded);
    assert!(gone.job.finished_at.is_some());
    assert_eq!(gone.attempts.len(), 1);
    assert!(gone.attempts[0].ended_at.is_some(), "the attempt is over");
    let duplicate = h.detail(setup.duplicate).await.job;
    assert_eq!((duplicate.state, duplicate.attempt), (JobState::Pending, 0));
}

async fn settled_as(h: Harness, outcome: Outcome) {
    let setup = running_with_duplicate(&h).await;
    let batch = [
        settlement(&setup.leased, outcome),
        settlement(&setup.neighbour, Outcome::Done { result: Some(b"kept".to_vec()) }),
    ];
    assert_eq!(h.store.settle(&batch).await.unwrap(), [Settled::Superseded, Settled::Accepted]);
    check(&h, &setup).await;
    let neighbour = h.detail(setup.neighbour.id).await.job;
    assert_eq!((neighbour.state, neighbour.result), (JobState::Completed, Some(b"kept".to_vec())));
    assert_eq!(h.claim_one(setup.worker).await.id, setup.duplicate);
}

pub async fn a_retry_is_superseded(h: Harness) {
    settled_as(h, Outcome::Retry { after: None, error: "no".to_owned() }).await;
}

pub async fn a_snooze_is_superseded(h: Harness) {
    settled_as(h, Outcome::snooze(Duration::from_secs(5))).await;
}

pub async fn a_hand_back_is_superseded(h: Harness) {
    settled_as(h, Outcome::HandBack).await;
}

pub async fn a_settlement_in_a_transaction_is_superseded(h: Harness) {
    let setup = running_with_duplicate(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    let back = settlement(&setup.leased, Outcome::HandBack);
    assert_eq!(h.store.settle_in(tx.tx(), &back).await.unwrap(), Settled::Superseded);
    tx.commit().await.unwrap();
    check(&h, &setup).await;
}

pub async fn a_reclaimed_job_is_superseded(h: Harness) {
    let setup = running_with_duplicate(&h).await;
    let got = h.lose(setup.worker).await;
    assert_eq!(got, Reclaimed { returned: 1, superseded: 1, ..Reclaimed::default() });
    check(&h, &setup).await;
    assert_eq!(h.state(setup.neighbour.id).await, JobState::Pending);
}

pub async fn a_job_of_a_retired_worker_is_superseded(h: Harness) {
    let setup = running_with_duplicate(&h).await;
    h.store.retire_worker(setup.worker).await.unwrap();
    check(&h, &setup).await;
    assert_eq!(h.state(setup.neighbour.id).await, JobState::Pending);
}

pub async fn a_replay_is_superseded(h: Harness) {
    let setup = running_with_duplicate(&h).await;
    for job in [&setup.leased, &setup.neighbour] {
        h.settle(job, Outcome::Fail { error: "no".to_owned() }).await;
    }
    let failed = h.detail(setup.leased.id).await;
    let got = h.act(&[setup.leased.id, setup.neighbour.id], Action::Retry).await;
    assert_eq!(got, Bulk { done: 1, superseded: 1, ..Bulk::default() });
    check(&h, &setup).await;
    assert_eq!(h.state(setup.neighbour.id).await, JobState::Pending);
    let gone = h.detail(setup.leased.id).await;
    assert_eq!(gone.attempts, failed.attempts, "what happened stays as it was");
    assert_eq!(gone.job.started_at, failed.job.started_at);
    assert_eq!(gone.job.last_error.as_deref(), Some("no"));
}

/// Three running jobs with one key; none waits.
async fn three_duplicates(h: &Harness, worker: WorkerId) -> Vec<LeasedJob> {
    let mut all = Vec::new();
    for _ in 0..3 {
        h.put(h.unique("k", OnConflict::Reject)).await;
        all.push(h.claim_one(worker).await);
    }
    all
}

async fn one_waits_two_superseded(h: &Harness) {
    assert_eq!(h.count(JobState::Superseded).await, 2);
    assert_eq!(h.count(JobState::Scheduled).await + h.count(JobState::Pending).await, 1);
}

pub async fn three_duplicates_settled_in_one_batch(h: Harness) {
    let worker = h.worker().await;
    let batch: Vec<_> =
        three_duplicates(&h, worker).await.iter().map(|j| settlement(j, Outcome::HandBack)).collect();
    let got = h.store.settle(&batch).await.unwrap();
    assert_eq!(got.iter().filter(|s| **s == Settled::Accepted).count(), 1, "{got:?}");
    assert_eq!(got.iter().filter(|s| **s == Settled::Superseded).count(), 2, "{got:?}");
    one_waits_two_superseded(&h).await;
}

pub async fn three_duplicates_reclaimed_together(h: Harness) {
    let worker = h.worker().await;
    three_duplicates(&h, worker).await;
    let got = h.lose(worker).await;
    assert_eq!(got, Reclaimed { returned: 1, superseded: 2, ..Reclaimed::default() });
    one_waits_two_superseded(&h).await;
}

pub async fn three_duplicates_retired_together(h: Harness) {
    let worker = h.worker().await;
    three_duplicates(&h, worker).await;
    h.store.retire_worker(worker).await.unwrap();
    one_waits_two_superseded(&h).await;
}

pub async fn three_duplicates_replayed_together(h: Harness) {
    let worker = h.worker().await;
    let mut ids = Vec::new();
    for job in three_duplicates(&h, worker).await {
        h.settle(&job, Outcome::Fail { error: "no".to_owned() }).await;
        ids.push(job.id);
    }
    assert_eq!(h.act(&ids, Action::Retry).await, Bulk { done: 1, superseded: 2, ..Bulk::default() });
    one_waits_two_superseded(&h).await;
}
