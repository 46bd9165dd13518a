//! A job that comes back and meets its pending twin ends `superseded`, in the same statement and without harm to the
//! twin or to the rest of the batch.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Reclaimed, Settled};
use windlass_core::{JobId, JobState, LeasedJob, OnConflict, Outcome, WorkerId};

use super::{Harness, settlement};

struct Met {
    worker: WorkerId,
    /// Runs, and has a waiting twin.
    leased: LeasedJob,
    twin: JobId,
    /// Runs in the same claim and has none.
    neighbour: LeasedJob,
}

async fn meeting(h: &Harness) -> Met {
    let worker = h.worker().await;
    h.put(h.unique("k", OnConflict::Reject)).await;
    h.put(h.job()).await;
    let mut leased = h.claim(worker, 2).await;
    let twin = h.put(h.unique("k", OnConflict::Reject)).await;
    let neighbour = leased.pop().unwrap();
    Met { worker, leased: leased.pop().unwrap(), twin, neighbour }
}

async fn check(h: &Harness, met: &Met) {
    let gone = h.detail(met.leased.id).await;
    assert_eq!(gone.job.state, JobState::Superseded);
    assert!(gone.job.finished_at.is_some());
    assert_eq!(gone.attempts.len(), 1);
    assert!(gone.attempts[0].ended_at.is_some(), "the attempt is over");
    let twin = h.detail(met.twin).await.job;
    assert_eq!((twin.state, twin.attempt), (JobState::Pending, 0));
}

async fn settled_as(h: Harness, outcome: Outcome) {
    let met = meeting(&h).await;
    let batch = [
        settlement(&met.leased, outcome),
        settlement(&met.neighbour, Outcome::Done { result: Some(b"kept".to_vec()) }),
    ];
    assert_eq!(h.store.settle(&batch).await.unwrap(), [Settled::Superseded, Settled::Accepted]);
    check(&h, &met).await;
    let neighbour = h.detail(met.neighbour.id).await.job;
    assert_eq!((neighbour.state, neighbour.result), (JobState::Completed, Some(b"kept".to_vec())));
    assert_eq!(h.claim_one(met.worker).await.id, met.twin);
}

pub async fn retry_meets_its_twin(h: Harness) {
    settled_as(h, Outcome::Retry { after: None, error: "no".to_owned() }).await;
}

pub async fn snooze_meets_its_twin(h: Harness) {
    settled_as(h, Outcome::snooze(Duration::from_secs(5))).await;
}

pub async fn hand_back_meets_its_twin(h: Harness) {
    settled_as(h, Outcome::HandBack).await;
}

pub async fn settle_in_meets_its_twin(h: Harness) {
    let met = meeting(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    let back = settlement(&met.leased, Outcome::HandBack);
    assert_eq!(h.store.settle_in(tx.tx(), &back).await.unwrap(), Settled::Superseded);
    tx.commit().await.unwrap();
    check(&h, &met).await;
}

pub async fn reclaim_meets_its_twin(h: Harness) {
    let met = meeting(&h).await;
    let got = h.lose(met.worker).await;
    assert_eq!(got, Reclaimed { suspects: 1, superseded: 1, ..Reclaimed::default() });
    check(&h, &met).await;
    assert_eq!(h.state(met.neighbour.id).await, JobState::Pending);
}

pub async fn retire_meets_its_twin(h: Harness) {
    let met = meeting(&h).await;
    h.store.retire_worker(met.worker).await.unwrap();
    check(&h, &met).await;
    assert_eq!(h.state(met.neighbour.id).await, JobState::Pending);
}

pub async fn replay_meets_its_twin(h: Harness) {
    let met = meeting(&h).await;
    for job in [&met.leased, &met.neighbour] {
        h.settle(job, Outcome::Fail { error: "no".to_owned() }).await;
    }
    let failed = h.detail(met.leased.id).await;
    let got = h.act(&[met.leased.id, met.neighbour.id], Action::Retry).await;
    assert_eq!(got, Bulk { done: 1, superseded: 1, ..Bulk::default() });
    check(&h, &met).await;
    assert_eq!(h.state(met.neighbour.id).await, JobState::Pending);
    let gone = h.detail(met.leased.id).await;
    assert_eq!(gone.attempts, failed.attempts, "what happened stays as it was");
    assert_eq!(gone.job.started_at, failed.job.started_at);
    assert_eq!(gone.job.last_error.as_deref(), Some("no"));
}

/// Three runs of one key; none waits.
async fn triplets(h: &Harness, worker: WorkerId) -> Vec<LeasedJob> {
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

pub async fn triplets_settled_in_one_batch(h: Harness) {
    let worker = h.worker().await;
    let batch: Vec<_> = triplets(&h, worker).await.iter().map(|j| settlement(j, Outcome::HandBack)).collect();
    let got = h.store.settle(&batch).await.unwrap();
    assert_eq!(got.iter().filter(|s| **s == Settled::Accepted).count(), 1, "{got:?}");
    assert_eq!(got.iter().filter(|s| **s == Settled::Superseded).count(), 2, "{got:?}");
    one_waits_two_superseded(&h).await;
}

pub async fn triplets_reclaimed_together(h: Harness) {
    let worker = h.worker().await;
    triplets(&h, worker).await;
    let got = h.lose(worker).await;
    assert_eq!(got, Reclaimed { suspects: 1, superseded: 2, ..Reclaimed::default() });
    one_waits_two_superseded(&h).await;
}

pub async fn triplets_retired_together(h: Harness) {
    let worker = h.worker().await;
    triplets(&h, worker).await;
    h.store.retire_worker(worker).await.unwrap();
    one_waits_two_superseded(&h).await;
}

pub async fn triplets_replayed_together(h: Harness) {
    let worker = h.worker().await;
    let mut ids = Vec::new();
    for job in triplets(&h, worker).await {
        h.settle(&job, Outcome::Fail { error: "no".to_owned() }).await;
        ids.push(job.id);
    }
    assert_eq!(h.act(&ids, Action::Retry).await, Bulk { done: 1, superseded: 2, ..Bulk::default() });
    one_waits_two_superseded(&h).await;
}
