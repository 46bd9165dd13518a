//! Idempotency and unique keys under races.

use std::time::Duration;

use windlass_core::outcome::{Return, ReturnAt, ReturnWhy};
use windlass_core::store::Settled;
use windlass_core::{
    Idempotency, JobState, KeyUse, NewJob, OnConflict, RunAt, Store, StoreError, TxRef, Unique, Verdict,
};

use crate::place::{Place, settlement};

fn once(place: &Place, key: &str, print: &[u8]) -> NewJob {
    let idempotency = Some(Idempotency { key: key.to_owned(), fingerprint: print.to_vec() });
    NewJob { idempotency, ..place.job() }
}

fn unique(place: &Place, key: &str, on_conflict: OnConflict) -> NewJob {
    NewJob { unique: Some(Unique::until_started(key, on_conflict)), ..place.job() }
}

#[tokio::test]
async fn the_same_key_gives_the_same_job_and_another_payload_nothing() {
    let place = Place::new().await;
    let first = place.store.enqueue(&[once(&place, "a", b"1"), once(&place, "a", b"1")]).await.unwrap();
    assert!(!first[0].duplicate && first[1].duplicate && first[0].id == first[1].id);
    let again = place.store.enqueue(&[place.job(), once(&place, "a", b"1")]).await.unwrap();
    assert!(!again[0].duplicate && again[1].duplicate && again[1].id == first[0].id);
    let before = place.number("select count(*) from windlass.jobs").await;
    let refused = place.store.enqueue(&[place.job(), once(&place, "b", b"1"), once(&place, "a", b"2")]).await;
    assert!(
        matches!(refused, Err(StoreError::IdempotencyMismatch { existing, .. }) if existing == KeyUse::Job(first[0].id))
    );
    assert_eq!(place.number("select count(*) from windlass.jobs").await, before);
    assert_eq!(place.number("select count(*) from windlass.idempotency").await, 1);
    place.end().await;
}

/// The loser of a race must not report a job that never came to be.
#[tokio::test]
async fn a_loser_takes_over_when_the_winner_rolls_back() {
    for commit in [false, true] {
        let place = Place::new().await;
        let job =
            NewJob { unique: Some(Unique::until_started("u", OnConflict::Keep)), ..once(&place, "a", b"1") };
        let mut tx = place.pool.begin().await.unwrap();
        let winner = place.store.enqueue_in(TxRef::new(&mut *tx), std::slice::from_ref(&job)).await.unwrap();
        let batch = [job];
        let (loser, ()) = tokio::join!(place.store.enqueue(&batch), async {
            place.wait_for_blocked_session().await;
            if commit { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        });
        let loser = loser.unwrap();
        assert_eq!(loser[0].duplicate, commit);
        assert_eq!(loser[0].id == winner[0].id, commit);
        assert_eq!(place.number("select count(*) from windlass.jobs").await, 1);
        assert_eq!(place.number("select count(*) from windlass.ready").await, 1);
        place.end().await;
    }
}

#[tokio::test]
async fn a_refused_batch_leaves_nothing_in_the_callers_transaction() {
    let place = Place::new().await;
    place.store.enqueue(&[unique(&place, "u", OnConflict::Keep)]).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    let batch = [once(&place, "k", b"1"), unique(&place, "u", OnConflict::Reject)];
    let refused = place.store.enqueue_in(TxRef::new(&mut *tx), &batch).await;
    assert!(matches!(refused, Err(StoreError::UniqueRejected { .. })));
    place.store.enqueue_in(TxRef::new(&mut *tx), &[place.job()]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(place.number("select count(*) from windlass.jobs").await, 2);
    assert_eq!(place.number("select count(*) from windlass.idempotency").await, 0);
    place.end().await;
}

#[tokio::test]
async fn replace_supersedes_and_keeps_the_earlier_place() {
    let place = Place::new().await;
    let first = place.store.enqueue(&[unique(&place, "u", OnConflict::Replace)]).await.unwrap()[0].id;
    let stood = place.store.job(first).await.unwrap().unwrap().job.run_at;
    let later =
        NewJob { run_at: RunAt::In(Duration::from_secs(60)), ..unique(&place, "u", OnConflict::Replace) };
    let second = place.store.enqueue(&[later]).await.unwrap()[0];
    assert!(!second.duplicate);
    assert_eq!(place.state(first).await, JobState::Superseded);
    assert_eq!(place.store.job(second.id).await.unwrap().unwrap().job.run_at, stood);
    let kept = place.store.enqueue(&[unique(&place, "u", OnConflict::Keep)]).await.unwrap()[0];
    assert!(kept.duplicate && kept.id == second.id);
    let both = [unique(&place, "v", OnConflict::Replace), unique(&place, "v", OnConflict::Replace)];
    let both = place.store.enqueue(&both).await.unwrap();
    assert_eq!(place.state(both[0].id).await, JobState::Superseded);
    assert_eq!(place.state(both[1].id).await, JobState::Pending);
    place.end().await;
}

#[tokio::test]
async fn a_returning_job_that_meets_its_twin_ends_superseded_and_its_batch_goes_on() {
    let place = Place::new().await;
    place.store.enqueue(&[unique(&place, "u", OnConflict::Keep), place.job()]).await.unwrap();
    let worker = place.worker().await;
    let leased = place.lease(worker, 5).await;
    let twin = place.store.enqueue(&[unique(&place, "u", OnConflict::Keep)]).await.unwrap()[0];
    assert!(!twin.duplicate, "a claimed job does not wait");
    let back = Verdict::Return(Return {
        why: ReturnWhy::Retry,
        attempts_used: 1,
        run_at: ReturnAt::In(Duration::ZERO),
        error: None,
    });
    let batch: Vec<_> = leased.iter().map(|j| settlement(j, back.clone())).collect();
    assert_eq!(place.store.settle(&batch).await.unwrap(), [Settled::Superseded, Settled::Accepted]);
    assert_eq!(place.state(leased[0].id).await, JobState::Superseded);
    place.end().await;
}
