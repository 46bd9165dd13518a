//! A running job of a lane returns while a duplicate with its unique key is blocked behind it. It ends `superseded`,
//! and the duplicate gets its slot.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Reclaimed, Settled};
use windlass_core::{JobId, JobState, LeasedJob, NewJob, OnConflict, Outcome, Unique, WorkerId};

use super::lane::{check_lanes, ids, keyed, retry};
use super::{Harness, settlement};

struct DuplicateSetup {
    worker: WorkerId,
    head: LeasedJob,
    duplicate: JobId,
}

async fn running_with_duplicate(h: &Harness) -> DuplicateSetup {
    let unique = Some(Unique::until_started("k", OnConflict::Reject));
    let job = NewJob { unique, ..keyed(h, "a") };
    let worker = h.worker().await;
    h.put(job.clone()).await;
    let head = h.claim_one(worker).await;
    let duplicate = h.put(job).await;
    assert!(h.claim(worker, 10).await.is_empty(), "the duplicate waits for the lane");
    DuplicateSetup { worker, head, duplicate }
}

async fn check(h: &Harness, setup: &DuplicateSetup, worker: WorkerId) {
    assert_eq!(h.state(setup.head.id).await, JobState::Superseded);
    check_lanes(h).await;
    let next = h.claim(worker, 10).await;
    assert_eq!(ids(&next), [setup.duplicate]);
    h.done(&next[0]).await;
    check_lanes(h).await;
}

async fn settled_as(h: Harness, outcome: Outcome) {
    let setup = running_with_duplicate(&h).await;
    assert_eq!(h.settle(&setup.head, outcome).await, Settled::Superseded);
    check(&h, &setup, setup.worker).await;
}

pub async fn a_retry_is_superseded(h: Harness) {
    settled_as(h, retry()).await;
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
    let back = settlement(&setup.head, Outcome::HandBack);
    assert_eq!(h.store.settle_in(tx.tx(), &back).await.unwrap(), Settled::Superseded);
    tx.commit().await.unwrap();
    check(&h, &setup, setup.worker).await;
}

pub async fn a_reclaimed_job_is_superseded(h: Harness) {
    let setup = running_with_duplicate(&h).await;
    assert_eq!(h.lose(setup.worker).await, Reclaimed { superseded: 1, ..Reclaimed::default() });
    let worker = h.worker().await;
    check(&h, &setup, worker).await;
}

pub async fn a_job_of_a_retired_worker_is_superseded(h: Harness) {
    let setup = running_with_duplicate(&h).await;
    h.store.retire_worker(setup.worker).await.unwrap();
    let worker = h.worker().await;
    check(&h, &setup, worker).await;
}

pub async fn a_replay_is_superseded(h: Harness) {
    let setup = running_with_duplicate(&h).await;
    h.settle(&setup.head, Outcome::Fail { error: "no".to_owned() }).await;
    let got = h.act(&[setup.head.id], Action::Retry).await;
    assert_eq!(got, Bulk { superseded: 1, ..Bulk::default() });
    check(&h, &setup, setup.worker).await;
}
