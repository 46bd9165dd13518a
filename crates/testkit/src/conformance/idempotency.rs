//! Idempotency keys: a repeated request returns the same job, and a different request with the key is refused.

use std::time::Duration;

use windlass_core::store::{Enqueued, JobFilter, StoreError};
use windlass_core::{Idempotency, JobId, JobState, KeyUse, NewJob};

use super::Harness;

fn keyed(h: &Harness, key: &str, fingerprint: &[u8]) -> NewJob {
    let idempotency = Idempotency { key: key.to_owned(), fingerprint: fingerprint.to_vec() };
    NewJob { idempotency: Some(idempotency), ..h.job() }
}

async fn all(h: &Harness) -> u64 {
    h.store.count(&JobFilter::default()).await.unwrap()
}

pub async fn the_same_request_gets_the_same_job(h: Harness) {
    let first = h.put(keyed(&h, "k", b"f")).await;
    let got = h.store.enqueue(&[keyed(&h, "k", b"f")]).await.unwrap();
    assert_eq!(got, [Enqueued { id: first, duplicate: true }]);
    assert_eq!(all(&h).await, 1);
    h.put(keyed(&h, "other", b"f")).await;
}

pub async fn the_key_outlives_the_run(h: Harness) {
    let first = h.put(keyed(&h, "k", b"f")).await;
    h.done(&h.claim_one(h.worker().await).await).await;
    let got = h.store.enqueue(&[keyed(&h, "k", b"f")]).await.unwrap();
    assert_eq!(got, [Enqueued { id: first, duplicate: true }]);
    assert_eq!(h.state(first).await, JobState::Completed);
}

pub async fn another_payload_is_refused(h: Harness) {
    let first = h.put(keyed(&h, "k", b"f")).await;
    match h.store.enqueue(&[h.job(), keyed(&h, "fresh", b"f"), keyed(&h, "k", b"other")]).await {
        Err(StoreError::IdempotencyMismatch { key, existing }) => {
            assert_eq!((key.as_str(), existing), ("k", KeyUse::Job(first)))
        }
        other => panic!("expected IdempotencyMismatch, got {other:?}"),
    }
    assert_eq!(all(&h).await, 1, "nothing of the refused call was written");
    h.put(keyed(&h, "fresh", b"another fingerprint")).await;
}

pub async fn a_key_twice_in_one_call(h: Harness) {
    let got = h.store.enqueue(&[keyed(&h, "k", b"f"), keyed(&h, "k", b"f")]).await.unwrap();
    assert!(!got[0].duplicate);
    assert_eq!(got[1], Enqueued { id: got[0].id, duplicate: true });
    assert_eq!(all(&h).await, 1);
}

pub async fn two_racing_calls_make_one_job(h: Harness) {
    let second = h.open().await;
    for round in 0..20 {
        let job = [keyed(&h, &format!("k{round}"), b"f")];
        let (one, two) = tokio::join!(h.store.enqueue(&job), second.enqueue(&job));
        let (one, two) = (one.unwrap()[0], two.unwrap()[0]);
        assert_eq!(one.id, two.id, "round {round}");
        assert!(one.duplicate != two.duplicate, "round {round}: exactly one is new");
    }
    assert_eq!(all(&h).await, 20);
}

/// Two transactions with one key. The second must not answer before the first has ended, with a commit or a rollback.
/// Returns the job of the first and the answer of the second.
async fn race(h: &Harness, commit: bool) -> (JobId, Enqueued) {
    let second = h.open().await;
    let mut tx = h.store.begin().await.unwrap();
    let first = h.store.enqueue_in(tx.tx(), &[keyed(h, "k", b"f")]).await.unwrap()[0];
    assert!(!first.duplicate);
    let job = [keyed(h, "k", b"f")];
    let mut late = tokio::spawn(async move {
        let mut tx = second.begin().await.unwrap();
        let got = second.enqueue_in(tx.tx(), &job).await.unwrap()[0];
        tx.commit().await.unwrap();
        got
    });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut late).await;
    assert!(early.is_err(), "the second answered {early:?} while the first was undecided");
    if commit {
        tx.commit().await.unwrap()
    } else {
        tx.rollback().await.unwrap()
    }
    (first.id, late.await.unwrap())
}

pub async fn the_second_enqueue_waits_for_a_commit(h: Harness) {
    let (first, late) = race(&h, true).await;
    assert_eq!(late, Enqueued { id: first, duplicate: true });
    assert_eq!(all(&h).await, 1);
    assert_eq!(h.state(first).await, JobState::Pending);
}

pub async fn the_second_enqueue_proceeds_after_a_rollback(h: Harness) {
    let (first, late) = race(&h, false).await;
    assert!(!late.duplicate, "the job it would be a duplicate of was never there");
    assert_eq!(all(&h).await, 1);
    assert_eq!(h.state(late.id).await, JobState::Pending);
    if late.id != first {
        assert!(h.store.job(first).await.unwrap().is_none());
    }
}
