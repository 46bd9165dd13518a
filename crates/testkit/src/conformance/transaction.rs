//! Jobs inside the caller's transaction exist if and only if it commits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::store::{JobFilter, Settled, StoreError, Wake};
use windlass_core::{Idempotency, JobState, NewJob, OnConflict, Outcome, TxRef};

use super::{Harness, settlement};
use crate::signal::{Seen, wait_until};

const DEADLINE: Duration = Duration::from_secs(10);

async fn all(h: &Harness) -> u64 {
    h.store.count(&JobFilter::default()).await.unwrap()
}

fn keyed(h: &Harness) -> NewJob {
    let idempotency = Idempotency { key: "k".to_owned(), fingerprint: b"f".to_vec() };
    NewJob { idempotency: Some(idempotency), ..h.unique("u", OnConflict::Reject) }
}

fn wakes(h: &Harness) -> Arc<Mutex<Vec<Wake>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let writer = seen.clone();
    h.store.on_wake(Box::new(move |wake| {
        writer.lock().unwrap().push(wake);
        true
    }));
    seen
}

pub async fn commit_shows_the_jobs(h: Harness) {
    let second = h.open().await;
    let mut tx = h.store.begin().await.unwrap();
    let got = h.store.enqueue_in(tx.tx(), &[h.job(), h.job()]).await.unwrap();
    let more = h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap();
    assert!(got[0].id < got[1].id && got[1].id < more[0].id);
    for store in [&h.store, &second] {
        assert!(store.job(got[0].id).await.unwrap().is_none(), "not before the commit");
        assert_eq!(store.count(&JobFilter::default()).await.unwrap(), 0);
    }
    tx.commit().await.unwrap();
    assert_eq!(second.count(&JobFilter::default()).await.unwrap(), 3);
    let leased = h.claim(h.worker().await, 10).await;
    assert_eq!(leased.iter().map(|j| j.id).collect::<Vec<_>>(), [got[0].id, got[1].id, more[0].id]);
}

pub async fn rollback_leaves_nothing(h: Harness) {
    let mut tx = h.store.begin().await.unwrap();
    let got = h.store.enqueue_in(tx.tx(), &[keyed(&h)]).await.unwrap()[0];
    tx.rollback().await.unwrap();
    assert!(h.store.job(got.id).await.unwrap().is_none());
    assert_eq!(all(&h).await, 0);
    assert!(h.claim(h.worker().await, 10).await.is_empty());
    h.put(keyed(&h)).await;
}

pub async fn dropping_rolls_back(h: Harness) {
    let mut tx = h.store.begin().await.unwrap();
    h.store.enqueue_in(tx.tx(), &[keyed(&h)]).await.unwrap();
    drop(tx);
    h.put(keyed(&h)).await;
    assert_eq!(all(&h).await, 1);
}

pub async fn a_refused_enqueue_in_says_why(h: Harness) {
    let waiting = h.put(h.unique("u", OnConflict::Reject)).await;
    let mut tx = h.store.begin().await.unwrap();
    match h.store.enqueue_in(tx.tx(), &[h.unique("u", OnConflict::Reject)]).await {
        Err(StoreError::UniqueRejected { existing, .. }) => assert_eq!(existing, waiting),
        other => panic!("expected UniqueRejected, got {other:?}"),
    }
    tx.rollback().await.unwrap();
    assert_eq!(all(&h).await, 1);
}

pub async fn only_a_commit_wakes_workers(h: Harness) {
    let seen = wakes(&h);
    let here = |all: &[Wake]| all.iter().any(|wake| wake.queue() == Some(h.queue));
    let mut tx = h.store.begin().await.unwrap();
    h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap();
    assert!(!here(&seen.lock().unwrap()), "before the end of the transaction");
    tx.rollback().await.unwrap();
    // A wake-up for a later job shows that the rolled-back job caused none.
    h.put(NewJob { queue: h.other_queue, kind: h.other_kind, ..h.job() }).await;
    wait_until("a wake after an enqueue", DEADLINE, || async {
        Seen::when(seen.lock().unwrap().clone(), |all| all.iter().any(|wake| wake.concerns(h.other_queue)))
    })
    .await;
    assert!(!here(&seen.lock().unwrap()), "after a rollback");
    let mut tx = h.store.begin().await.unwrap();
    h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap();
    seen.lock().unwrap().clear();
    tx.commit().await.unwrap();
    wait_until("a wake after the commit", DEADLINE, || async {
        Seen::when(seen.lock().unwrap().clone(), |all| all.iter().any(|wake| wake.concerns(h.queue)))
    })
    .await;
}

pub async fn settle_in_commits_with_the_effect(h: Harness) {
    let id = h.put(h.job()).await;
    let leased = h.claim_one(h.worker().await).await;
    let mut tx = h.store.begin().await.unwrap();
    let effect = h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap()[0].id;
    let done = settlement(&leased, Outcome::Done { result: Some(b"r".to_vec()) });
    assert_eq!(h.store.settle_in(tx.tx(), &done).await.unwrap(), Settled::Accepted);
    assert_eq!(h.state(id).await, JobState::Running, "not before the commit");
    tx.commit().await.unwrap();
    let job = h.detail(id).await.job;
    assert_eq!((job.state, job.result), (JobState::Completed, Some(b"r".to_vec())));
    assert_eq!(h.state(effect).await, JobState::Pending);
    assert_eq!(h.settle(&leased, Outcome::Done { result: None }).await, Settled::Stale);
}

pub async fn settle_in_rolls_back_with_the_effect(h: Harness) {
    let id = h.put(h.job()).await;
    let leased = h.claim_one(h.worker().await).await;
    let mut tx = h.store.begin().await.unwrap();
    let effect = h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap()[0].id;
    let done = settlement(&leased, Outcome::Done { result: None });
    assert_eq!(h.store.settle_in(tx.tx(), &done).await.unwrap(), Settled::Accepted);
    tx.rollback().await.unwrap();
    assert_eq!(h.state(id).await, JobState::Running);
    assert!(h.store.job(effect).await.unwrap().is_none());
    h.done(&leased).await;
}

pub async fn settle_in_returns_a_job(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let mut tx = h.store.begin().await.unwrap();
    let back = settlement(&leased, Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() });
    assert_eq!(h.store.settle_in(tx.tx(), &back).await.unwrap(), Settled::Accepted);
    tx.commit().await.unwrap();
    let again = h.claim_one(worker).await;
    assert_eq!((again.id, again.attempt), (id, 2));
}

fn check_foreign<T: std::fmt::Debug>(got: Result<T, StoreError>) {
    match got {
        Err(StoreError::WrongTransaction { why, remedy }) => {
            assert!(!why.is_empty() && !remedy.is_empty(), "`{why}` `{remedy}`")
        }
        other => panic!("expected WrongTransaction, got {other:?}"),
    }
}

pub async fn a_foreign_connection_is_refused(h: Harness) {
    let id = h.put(h.job()).await;
    let leased = h.claim_one(h.worker().await).await;
    let mut foreign = String::from("a connection of another driver");
    check_foreign(h.store.enqueue_in(TxRef::new(&mut foreign), &[h.job()]).await);
    let done = settlement(&leased, Outcome::Done { result: None });
    check_foreign(h.store.settle_in(TxRef::new(&mut foreign), &done).await);
    assert_eq!(all(&h).await, 1);
    assert_eq!(h.state(id).await, JobState::Running);
}
