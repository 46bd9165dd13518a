//! Unique keys with a window: for this long after a job was accepted, another job with the key is a duplicate, even if
//! the first has ended.

use std::time::Duration;

use windlass_core::store::{Action, Enqueued, JobFilter, Prune, PruneWhat, StoreError};
use windlass_core::{Idempotency, JobId, JobState, NewJob, OnConflict, Unique};

use super::Harness;

const MINUTE: Duration = Duration::from_secs(60);

fn windowed(h: &Harness, key: &str, on_conflict: OnConflict) -> NewJob {
    let unique = Some(Unique { window: Some(10 * MINUTE), ..Unique::until_started(key, on_conflict) });
    NewJob { unique, ..h.job() }
}

async fn again(h: &Harness, on_conflict: OnConflict) -> Enqueued {
    h.store.enqueue(&[windowed(h, "k", on_conflict)]).await.unwrap()[0]
}

async fn finished(h: &Harness) -> JobId {
    let first = h.put(windowed(h, "k", OnConflict::Keep)).await;
    h.done(&h.claim_one(h.worker().await).await).await;
    assert_eq!(h.state(first).await, JobState::Completed);
    first
}

pub async fn a_finished_job_holds_its_key_during_the_window(h: Harness) {
    let first = finished(&h).await;
    h.advance(9 * MINUTE);
    for on_conflict in [OnConflict::Keep, OnConflict::Replace] {
        assert_eq!(again(&h, on_conflict).await, Enqueued { id: first, duplicate: true });
    }
    match h.store.enqueue(&[windowed(&h, "k", OnConflict::Reject)]).await {
        Err(StoreError::UniqueRejected { existing, .. }) => assert_eq!(existing, first),
        other => panic!("expected UniqueRejected, got {other:?}"),
    }
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1);
}

pub async fn a_new_job_is_accepted_after_the_window(h: Harness) {
    let first = finished(&h).await;
    h.advance(10 * MINUTE);
    let second = again(&h, OnConflict::Keep).await;
    assert!(!second.duplicate && second.id != first);
    h.done(&h.claim_one(h.worker().await).await).await;
    h.advance(9 * MINUTE);
    assert_eq!(
        again(&h, OnConflict::Keep).await,
        Enqueued { id: second.id, duplicate: true },
        "a window of its own"
    );
}

pub async fn no_job_waits_behind_a_running_one(h: Harness) {
    let first = h.put(windowed(&h, "k", OnConflict::Keep)).await;
    let leased = h.claim_one(h.worker().await).await;
    assert_eq!(again(&h, OnConflict::Keep).await, Enqueued { id: first, duplicate: true });
    assert_eq!(again(&h, OnConflict::Replace).await, Enqueued { id: first, duplicate: true });
    h.done(&leased).await;
}

pub async fn a_cancelled_job_holds_its_key_and_a_deleted_one_does_not(h: Harness) {
    let first = h.put(windowed(&h, "k", OnConflict::Keep)).await;
    h.act(&[first], Action::Cancel).await;
    assert_eq!(again(&h, OnConflict::Keep).await, Enqueued { id: first, duplicate: true });
    h.act(&[first], Action::Delete).await;
    assert!(!again(&h, OnConflict::Keep).await.duplicate);
}

pub async fn replacing_a_waiting_job_keeps_its_window(h: Harness) {
    let first = h.put(windowed(&h, "k", OnConflict::Keep)).await;
    h.advance(6 * MINUTE);
    let second = again(&h, OnConflict::Replace).await;
    assert!(!second.duplicate);
    assert_eq!(h.state(first).await, JobState::Superseded);
    h.done(&h.claim_one(h.worker().await).await).await;
    assert_eq!(again(&h, OnConflict::Keep).await, Enqueued { id: second.id, duplicate: true });
    h.advance(5 * MINUTE);
    assert!(!again(&h, OnConflict::Keep).await.duplicate, "ten minutes after the first");
}

pub async fn a_replacement_takes_over_both_the_key_and_the_window(h: Harness) {
    let until_finished = || {
        let unique = Unique { window: Some(10 * MINUTE), ..Unique::new("k", OnConflict::Replace) };
        NewJob { unique: Some(unique), ..h.job() }
    };
    h.put(until_finished()).await;
    let second = h.put(until_finished()).await;
    let leased = h.claim_one(h.worker().await).await;
    assert_eq!(leased.id, second);
    let duplicate = vec![Enqueued { id: second, duplicate: true }];
    assert_eq!(h.store.enqueue(&[until_finished()]).await.unwrap(), duplicate, "it runs");
    h.done(&leased).await;
    assert_eq!(h.store.enqueue(&[until_finished()]).await.unwrap(), duplicate, "its window lasts");
}

/// A job that waits beyond its window still holds its key, and opens no new window.
pub async fn a_job_that_waits_beyond_its_window_holds_its_key(h: Harness) {
    let first = h.put(windowed(&h, "k", OnConflict::Keep)).await;
    h.advance(11 * MINUTE);
    assert_eq!(again(&h, OnConflict::Keep).await, Enqueued { id: first, duplicate: true });
    h.done(&h.claim_one(h.worker().await).await).await;
    assert!(!again(&h, OnConflict::Keep).await.duplicate);
}

pub async fn an_enqueue_without_a_window_ignores_windows(h: Harness) {
    finished(&h).await;
    h.put(h.unique("k", OnConflict::Reject)).await;
}

pub async fn duplicates_in_one_call(h: Harness) {
    let batch = [
        windowed(&h, "a", OnConflict::Keep),
        windowed(&h, "b", OnConflict::Keep),
        windowed(&h, "a", OnConflict::Keep),
        windowed(&h, "b", OnConflict::Replace),
        h.job(),
    ];
    let got = h.store.enqueue(&batch).await.unwrap();
    assert_eq!(got[2], Enqueued { id: got[0].id, duplicate: true });
    assert!(!got[3].duplicate && got[3].id != got[1].id);
    assert_eq!(h.state(got[1].id).await, JobState::Superseded);
    assert_eq!(h.count(JobState::Pending).await, 3);
}

pub async fn a_rollback_opens_no_window(h: Harness) {
    let mut tx = h.store.begin().await.unwrap();
    h.store.enqueue_in(tx.tx(), &[windowed(&h, "k", OnConflict::Keep)]).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(!again(&h, OnConflict::Keep).await.duplicate);
}

pub async fn an_idempotency_key_remembers_the_duplicate(h: Harness) {
    let first = finished(&h).await;
    let keyed = || NewJob {
        idempotency: Some(Idempotency { key: "i".to_owned(), fingerprint: b"f".to_vec() }),
        ..windowed(&h, "k", OnConflict::Keep)
    };
    for _ in 0..2 {
        let got = h.store.enqueue(&[keyed()]).await.unwrap()[0];
        assert_eq!(got, Enqueued { id: first, duplicate: true });
        h.advance(10 * MINUTE);
    }
}

pub async fn two_racing_enqueues_make_one_job(h: Harness) {
    let second = h.open().await;
    for round in 0..20 {
        let job = [windowed(&h, &format!("k{round}"), OnConflict::Keep)];
        let (one, two) = tokio::join!(h.store.enqueue(&job), second.enqueue(&job));
        let (one, two) = (one.unwrap()[0], two.unwrap()[0]);
        assert_eq!(one.id, two.id, "round {round}");
        assert!(one.duplicate != two.duplicate, "round {round}: exactly one is new");
    }
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 20);
}

pub async fn old_windows_are_pruned(h: Harness) {
    finished(&h).await;
    let prune = |dry_run| Prune { what: PruneWhat::Windows, older_than: Duration::ZERO, dry_run };
    assert_eq!(h.store.prune(&prune(false), None).await.unwrap(), 0, "it lasts");
    h.advance(11 * MINUTE);
    assert_eq!(h.store.prune(&prune(true), None).await.unwrap(), 1);
    assert_eq!(h.store.prune(&prune(false), None).await.unwrap(), 1);
    assert_eq!(h.store.prune(&prune(true), None).await.unwrap(), 0);
}
