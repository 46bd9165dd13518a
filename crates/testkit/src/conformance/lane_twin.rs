//! A lane's head that comes back and meets its twin, which waits in line behind it: it ends `superseded`, and its slot is
//! the twin's.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Reclaimed, Settled};
use windlass_core::{JobId, JobState, LeasedJob, NewJob, OnConflict, Outcome, Unique, WorkerId};

use super::lane::{ids, keyed, retry, sound};
use super::{Harness, settlement};

struct Met {
    worker: WorkerId,
    head: LeasedJob,
    twin: JobId,
}

async fn meeting(h: &Harness) -> Met {
    let unique = Some(Unique::until_started("k", OnConflict::Reject));
    let job = NewJob { unique, ..keyed(h, "a") };
    let worker = h.worker().await;
    h.put(job.clone()).await;
    let head = h.claim_one(worker).await;
    let twin = h.put(job).await;
    assert!(h.claim(worker, 10).await.is_empty(), "the twin waits for the lane");
    Met { worker, head, twin }
}

async fn check(h: &Harness, met: &Met, worker: WorkerId) {
    assert_eq!(h.state(met.head.id).await, JobState::Superseded);
    sound(h).await;
    let next = h.claim(worker, 10).await;
    assert_eq!(ids(&next), [met.twin]);
    h.done(&next[0]).await;
    sound(h).await;
}

async fn settled_as(h: Harness, outcome: Outcome) {
    let met = meeting(&h).await;
    assert_eq!(h.settle(&met.head, outcome).await, Settled::Superseded);
    check(&h, &met, met.worker).await;
}

pub async fn a_retry_meets_its_twin(h: Harness) {
    settled_as(h, retry()).await;
}

pub async fn a_snooze_meets_its_twin(h: Harness) {
    settled_as(h, Outcome::snooze(Duration::from_secs(5))).await;
}

pub async fn a_hand_back_meets_its_twin(h: Harness) {
    settled_as(h, Outcome::HandBack).await;
}

pub async fn settle_in_meets_its_twin(h: Harness) {
    let met = meeting(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    let back = settlement(&met.head, Outcome::HandBack);
    assert_eq!(h.store.settle_in(tx.tx(), &back).await.unwrap(), Settled::Superseded);
    tx.commit().await.unwrap();
    check(&h, &met, met.worker).await;
}

pub async fn a_sweep_meets_its_twin(h: Harness) {
    let met = meeting(&h).await;
    assert_eq!(h.lose(met.worker).await, Reclaimed { superseded: 1, ..Reclaimed::default() });
    let worker = h.worker().await;
    check(&h, &met, worker).await;
}

pub async fn a_goodbye_meets_its_twin(h: Harness) {
    let met = meeting(&h).await;
    h.store.retire_worker(met.worker).await.unwrap();
    let worker = h.worker().await;
    check(&h, &met, worker).await;
}

pub async fn a_replay_meets_its_twin(h: Harness) {
    let met = meeting(&h).await;
    h.settle(&met.head, Outcome::Fail { error: "no".to_owned() }).await;
    let got = h.act(&[met.head.id], Action::Retry).await;
    assert_eq!(got, Bulk { superseded: 1, ..Bulk::default() });
    check(&h, &met, met.worker).await;
}
