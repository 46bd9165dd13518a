//! How a job of a lane ends or returns, and what that means for the blocked jobs behind it.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Change, Reclaimed, Settled};
use windlass_core::sweep::DEADLY_LEVEL;
use windlass_core::{JobState, NewJob, OnConflict, Outcome, RunAt, Unique};

use super::lane::{MINUTE, check_lanes, ids, keyed, put_keyed, retry};
use super::{Harness, settlement};

async fn lets_the_next_run(h: Harness, outcome: Outcome, state: JobState) {
    let put = put_keyed(&h, "a", 2).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    assert_eq!(h.settle(&leased, outcome).await, Settled::Accepted);
    assert_eq!(h.state(put[0]).await, state);
    check_lanes(&h).await;
    let next = h.claim(worker, 10).await;
    assert_eq!(ids(&next), put[1..]);
    if state == JobState::Scheduled {
        h.advance(11 * MINUTE);
        assert!(h.claim(worker, 10).await.is_empty(), "it comes back in line");
        h.done(&next[0]).await;
        assert_eq!(ids(&h.claim(worker, 10).await), put[..1]);
    }
    check_lanes(&h).await;
}

pub async fn done_frees_the_slot(h: Harness) {
    lets_the_next_run(h, Outcome::Done { result: None }, JobState::Completed).await;
}

pub async fn a_retry_frees_the_slot(h: Harness) {
    lets_the_next_run(h, retry(), JobState::Scheduled).await;
}

pub async fn a_snooze_frees_the_slot(h: Harness) {
    lets_the_next_run(h, Outcome::snooze(10 * MINUTE), JobState::Scheduled).await;
}

pub async fn a_failure_frees_the_slot(h: Harness) {
    lets_the_next_run(h, Outcome::Fail { error: "no".to_owned() }, JobState::Failed).await;
}

/// A retry without delay is due at once, but the others have been due longer.
pub async fn a_retry_waits_behind_jobs_due_earlier(h: Harness) {
    let put = put_keyed(&h, "a", 2).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    h.settle(&leased, Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() }).await;
    for id in [put[1], put[0]] {
        let leased = h.claim_one(worker).await;
        assert_eq!(leased.id, id);
        h.done(&leased).await;
    }
    check_lanes(&h).await;
}

pub async fn a_hand_back_keeps_its_slot(h: Harness) {
    let put = put_keyed(&h, "a", 2).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    assert_eq!(h.settle(&leased, Outcome::HandBack).await, Settled::Accepted);
    check_lanes(&h).await;
    let again = h.claim(worker, 10).await;
    assert_eq!((ids(&again), again[0].run_at), (vec![put[0]], leased.run_at));
    h.store.retire_worker(worker).await.unwrap();
    check_lanes(&h).await;
    let worker = h.worker().await;
    let again = h.claim(worker, 10).await;
    assert_eq!(ids(&again), put[..1]);
    h.done(&again[0]).await;
    assert_eq!(ids(&h.claim(worker, 10).await), put[1..]);
    check_lanes(&h).await;
}

/// A job whose worker died keeps its slot, so that no other job of the lane runs before it.
pub async fn a_lost_job_keeps_its_slot(h: Harness) {
    let (a, b) = (put_keyed(&h, "a", 2).await, put_keyed(&h, "b", 2).await);
    let worker = h.worker().await;
    assert_eq!(ids(&h.claim(worker, 10).await), [a[0], b[0]]);
    assert_eq!(h.lose(worker).await, Reclaimed { returned: 2, ..Reclaimed::default() });
    check_lanes(&h).await;
    let worker = h.worker().await;
    let again = h.claim(worker, 10).await;
    assert_eq!(ids(&again), [a[0], b[0]]);
    for (suspect, next) in again.iter().zip([a[1], b[1]]) {
        h.done(suspect).await;
        let next_one = h.claim(worker, 10).await;
        assert_eq!(ids(&next_one), [next]);
        h.done(&next_one[0]).await;
    }
    check_lanes(&h).await;
}

pub async fn a_dead_letter_frees_the_slot(h: Harness) {
    let put = put_keyed(&h, "a", 2).await;
    let worker = h.worker().await;
    h.claim_one(worker).await;
    h.lose(worker).await;
    for _ in 1..DEADLY_LEVEL {
        assert_eq!(h.state(put[1]).await, JobState::Pending);
        h.suspect_dies().await;
        check_lanes(&h).await;
    }
    assert_eq!(h.state(put[0]).await, JobState::DeadLetter);
    assert_eq!(ids(&h.claim(h.worker().await, 10).await), put[1..]);
}

pub async fn a_cancelled_job_frees_the_slot(h: Harness) {
    let put = put_keyed(&h, "a", 4).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    assert_eq!(h.settle(&leased, Outcome::HandBack).await, Settled::Accepted, "a head that waits");
    assert_eq!(h.act(&put[..1], Action::Cancel).await, Bulk { done: 1, ..Bulk::default() });
    check_lanes(&h).await;
    let leased = h.claim(worker, 10).await;
    assert_eq!(ids(&leased), put[1..2]);
    assert_eq!(h.act(&put[1..3], Action::Cancel).await, Bulk { done: 1, requested: 1, ..Bulk::default() });
    assert!(h.claim(worker, 10).await.is_empty(), "one in line is gone, the running one is not");
    assert_eq!(h.settle(&leased[0], retry()).await, Settled::Cancelled);
    check_lanes(&h).await;
    assert_eq!(ids(&h.claim(worker, 10).await), put[3..]);
}

pub async fn a_lost_and_cancelled_job_frees_the_slot(h: Harness) {
    let put = put_keyed(&h, "a", 2).await;
    let worker = h.worker().await;
    h.claim_one(worker).await;
    assert_eq!(h.act(&put[..1], Action::Cancel).await.requested, 1);
    assert_eq!(h.lose(worker).await, Reclaimed { cancelled: 1, ..Reclaimed::default() });
    check_lanes(&h).await;
    assert_eq!(ids(&h.claim(h.worker().await, 10).await), put[1..]);
}

pub async fn a_replayed_job_is_blocked_again(h: Harness) {
    let put = put_keyed(&h, "a", 3).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    h.settle(&leased, Outcome::Fail { error: "no".to_owned() }).await;
    let second = h.claim_one(worker).await;
    assert_eq!(h.act(&put[..1], Action::Retry).await, Bulk { done: 1, ..Bulk::default() });
    check_lanes(&h).await;
    assert!(h.claim(worker, 10).await.is_empty());
    h.done(&second).await;
    assert_eq!(h.act(&put[1..2], Action::Delete).await, Bulk { done: 1, ..Bulk::default() });
    for id in [put[2], put[0]] {
        let leased = h.claim_one(worker).await;
        assert_eq!(leased.id, id);
        h.done(&leased).await;
    }
    check_lanes(&h).await;
}

pub async fn a_scheduled_job_with_a_key_can_be_run_now(h: Harness) {
    let later = h.put(NewJob { run_at: RunAt::In(10 * MINUTE), ..keyed(&h, "a") }).await;
    let worker = h.worker().await;
    assert!(h.claim(worker, 10).await.is_empty());
    assert_eq!(h.act(&[later], Action::Retry).await, Bulk { done: 1, ..Bulk::default() });
    check_lanes(&h).await;
    assert_eq!(ids(&h.claim(worker, 10).await), [later]);
    h.advance(11 * MINUTE);
    assert!(h.claim(worker, 10).await.is_empty(), "its original due time has no effect");
}

pub async fn a_replaced_job_frees_the_slot(h: Harness) {
    let job = |key: &str| NewJob {
        unique: Some(Unique::until_started("u", OnConflict::Replace)),
        ..keyed(&h, key)
    };
    let worker = h.worker().await;
    let old = h.put(job("a")).await;
    let behind = h.put(keyed(&h, "a")).await;
    let leased = h.claim_one(worker).await;
    h.settle(&leased, Outcome::HandBack).await;
    let elsewhere = h.put(job("b")).await;
    assert_eq!(h.state(old).await, JobState::Superseded);
    check_lanes(&h).await;
    let leased = h.claim(worker, 10).await;
    let mut got = ids(&leased);
    got.sort_unstable();
    assert_eq!(got, [behind, elsewhere]);
    for job in &leased {
        h.done(job).await;
    }
    let lined = h.put(job("a")).await;
    let newer = h.put(job("a")).await;
    assert_eq!(h.state(lined).await, JobState::Superseded);
    check_lanes(&h).await;
    assert_eq!(ids(&h.claim(worker, 10).await), [newer]);
}

pub async fn a_postponed_ready_job_frees_the_slot(h: Harness) {
    let put = put_keyed(&h, "a", 3).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    h.settle(&leased, Outcome::HandBack).await;
    let change = Change { priority: None, run_at: Some(h.now().await.plus(10 * MINUTE)) };
    assert!(h.store.change(put[0], &change, None).await.unwrap());
    assert_eq!(h.state(put[0]).await, JobState::Scheduled);
    check_lanes(&h).await;
    let second = h.claim(worker, 10).await;
    assert_eq!(ids(&second), put[1..2]);
    h.advance(11 * MINUTE);
    let urgent = Change { priority: Some(0), run_at: None };
    assert!(h.store.change(put[0], &urgent, None).await.unwrap(), "one in line can be moved up");
    check_lanes(&h).await;
    h.done(&second[0]).await;
    for id in [put[0], put[2]] {
        let leased = h.claim_one(worker).await;
        assert_eq!(leased.id, id);
        h.done(&leased).await;
    }
    check_lanes(&h).await;
}

pub async fn a_postponed_blocked_job_is_skipped(h: Harness) {
    let put = put_keyed(&h, "a", 3).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let change = Change { priority: None, run_at: Some(h.now().await.plus(10 * MINUTE)) };
    assert!(h.store.change(put[1], &change, None).await.unwrap());
    h.done(&leased).await;
    let third = h.claim(worker, 10).await;
    assert_eq!(ids(&third), put[2..]);
    h.done(&third[0]).await;
    assert!(h.claim(worker, 10).await.is_empty());
    h.advance(11 * MINUTE);
    assert_eq!(ids(&h.claim(worker, 10).await), put[1..2]);
    check_lanes(&h).await;
}

/// Plain and keyed jobs that were leased together end together.
pub async fn plain_and_keyed_jobs_settle_in_one_batch(h: Harness) {
    let plain = h.put_plain(2).await;
    let (a, b) = (put_keyed(&h, "a", 2).await, put_keyed(&h, "b", 2).await);
    let worker = h.worker().await;
    let leased = h.claim(worker, 10).await;
    assert_eq!(ids(&leased), [plain[0], plain[1], a[0], b[0]]);
    let outcomes = [
        Outcome::Done { result: Some(b"kept".to_vec()) },
        Outcome::HandBack,
        Outcome::Fail { error: "no".to_owned() },
        retry(),
    ];
    let mut batch: Vec<_> = leased.iter().zip(outcomes).map(|(job, o)| settlement(job, o)).collect();
    batch.push(batch[2].clone());
    let answers = h.store.settle(&batch).await.unwrap();
    assert_eq!(answers[..4], [Settled::Accepted; 4]);
    assert_eq!(answers[4], Settled::Stale);
    let states = [JobState::Completed, JobState::Pending, JobState::Failed, JobState::Scheduled];
    for (job, state) in leased.iter().zip(states) {
        assert_eq!(h.state(job.id).await, state);
    }
    assert_eq!(ids(&h.claim(worker, 10).await), [plain[1], a[1], b[1]]);
    check_lanes(&h).await;
}

pub async fn a_stale_settlement_frees_nothing(h: Harness) {
    let put = put_keyed(&h, "a", 2).await;
    let worker = h.worker().await;
    let lost = h.claim_one(worker).await;
    h.lose(worker).await;
    assert_eq!(h.settle(&lost, Outcome::Done { result: None }).await, Settled::Stale);
    let worker = h.worker().await;
    let alone = h.claim_suspect(worker).await.unwrap();
    assert!(h.claim(worker, 10).await.is_empty(), "the suspect still has the slot");
    assert_eq!(h.settle(&lost, retry()).await, Settled::Stale);
    h.done(&alone).await;
    assert_eq!(h.settle(&alone, Outcome::HandBack).await, Settled::Stale, "twice is stale");
    assert_eq!(ids(&h.claim(worker, 10).await), put[1..]);
    check_lanes(&h).await;
}
