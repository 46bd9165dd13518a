//! A settlement gives its slot to the next blocked job. `claim_late` does no lane checks, so a job it finds was given
//! its slot by the settlement.

use std::time::Duration;

use windlass_core::store::{Action, Change, Settled};
use windlass_core::{JobId, LeasedJob, NewJob, OnConflict, Outcome, RunAt, Unique, WorkerId};

use super::lane::{MINUTE, check_lanes, ids, keyed, limit, put_keyed, retry};
use super::{Harness, settlement};

async fn heads(h: &Harness, worker: WorkerId) -> Vec<LeasedJob> {
    let mut heads = h.store.claim_late(&h.ask(worker, 10), Duration::ZERO).await.unwrap().jobs;
    heads.sort_by_key(|job| job.id);
    heads
}

async fn handed_over(h: &Harness, worker: WorkerId, expected: &[JobId]) -> Vec<LeasedJob> {
    check_lanes(h).await;
    let heads = heads(h, worker).await;
    assert_eq!(ids(&heads), expected);
    assert!(h.claim(worker, 10).await.is_empty(), "a slot was given twice");
    check_lanes(h).await;
    heads
}

pub async fn a_settlement_gives_the_slot_to_the_next_job(h: Harness) {
    let worker = h.worker().await;
    let put = put_keyed(&h, "a", 4).await;
    let mut running = h.claim_one(worker).await;
    for (n, outcome) in [Outcome::Done { result: None }, retry(), Outcome::Fail { error: "no".to_owned() }]
        .into_iter()
        .enumerate()
    {
        let claimed = h.now().await;
        assert_eq!(h.settle(&running, outcome).await, Settled::Accepted);
        running = handed_over(&h, worker, &put[n + 1..n + 2]).await.remove(0);
        assert!(running.run_at >= claimed, "its due time is when it got the slot");
    }
}

/// One batch settles jobs of several lanes; each slot goes to a job of its own lane.
pub async fn each_slot_stays_in_its_lane(h: Harness) {
    limit(&h, 2).await;
    let worker = h.worker().await;
    let (a, b, c) = (put_keyed(&h, "a", 5).await, put_keyed(&h, "b", 3).await, put_keyed(&h, "c", 2).await);
    let leased = h.claim(worker, 10).await;
    assert_eq!(ids(&leased), [a[0], a[1], b[0], b[1], c[0], c[1]]);
    let mut batch: Vec<_> =
        leased.iter().map(|job| settlement(job, Outcome::Done { result: None })).collect();
    batch[3] = settlement(&leased[3], Outcome::HandBack);
    batch.push(batch[0].clone());
    let answers = h.store.settle(&batch).await.unwrap();
    assert_eq!((answers[..6].to_vec(), answers[6]), (vec![Settled::Accepted; 6], Settled::Stale));
    handed_over(&h, worker, &[a[2], a[3], b[1], b[2]]).await;
}

/// The job gets a slot when it is due.
pub async fn a_job_that_is_not_due_is_not_promoted(h: Harness) {
    let worker = h.worker().await;
    let now = h.put(keyed(&h, "a")).await;
    let urgent = NewJob { priority: 0, run_at: RunAt::In(10 * MINUTE), ..keyed(&h, "a") };
    let later = h.put(urgent).await;
    let running = h.claim_one(worker).await;
    assert_eq!(running.id, now);
    h.done(&running).await;
    handed_over(&h, worker, &[]).await;
    let next = h.poll(worker).await.queues.into_iter().find(|queue| queue.queue == h.queue).unwrap().next_due;
    assert!(next.is_some(), "the lane is checked when the job is due");
    h.advance(11 * MINUTE);
    assert_eq!(ids(&h.claim(worker, 10).await), [later]);
    check_lanes(&h).await;
}

/// A due job goes before a more urgent one that is not due.
pub async fn a_job_that_is_not_due_blocks_no_other(h: Harness) {
    let worker = h.worker().await;
    put_keyed(&h, "a", 1).await;
    let ahead = |priority| NewJob { priority, run_at: RunAt::In(10 * MINUTE), ..keyed(&h, "a") };
    let put = h.store.enqueue(&[ahead(0), ahead(4), ahead(5), keyed(&h, "a")]).await.unwrap();
    let running = h.claim_one(worker).await;
    h.done(&running).await;
    handed_over(&h, worker, &[put[3].id]).await;
}

pub async fn a_slot_above_a_lowered_limit_is_dropped(h: Harness) {
    limit(&h, 3).await;
    let worker = h.worker().await;
    let put = put_keyed(&h, "a", 6).await;
    let leased = h.claim(worker, 10).await;
    assert_eq!(ids(&leased), put[..3]);
    limit(&h, 2).await;
    // The lowest slot is within the new limit, but all three are taken.
    h.done(&leased[0]).await;
    handed_over(&h, worker, &[]).await;
    h.done(&leased[2]).await;
    check_lanes(&h).await;
    let mut running = h.claim(worker, 10).await;
    assert_eq!(ids(&running), put[3..4], "two run");
    h.done(&leased[1]).await;
    running.extend(handed_over(&h, worker, &put[4..5]).await);
    limit(&h, 1).await;
    let batch: Vec<_> = running.iter().map(|job| settlement(job, Outcome::Done { result: None })).collect();
    h.store.settle(&batch).await.unwrap();
    check_lanes(&h).await;
    assert_eq!(ids(&h.claim(worker, 10).await), put[5..]);
}

pub async fn a_stale_settlement_hands_nothing_over(h: Harness) {
    let worker = h.worker().await;
    let put = put_keyed(&h, "a", 3).await;
    let first = h.claim_one(worker).await;
    h.done(&first).await;
    assert_eq!(h.settle(&first, Outcome::Done { result: None }).await, Settled::Stale);
    let second = handed_over(&h, worker, &put[1..2]).await.remove(0);
    let foreign = LeasedJob { token: first.token, ..second.clone() };
    assert_eq!(h.settle(&foreign, Outcome::Done { result: None }).await, Settled::Stale);
    handed_over(&h, worker, &[]).await;
    h.done(&second).await;
    handed_over(&h, worker, &put[2..]).await;
}

/// One job is cancelled while blocked, another after it got its slot.
pub async fn a_cancelled_job_is_skipped(h: Harness) {
    let worker = h.worker().await;
    let put = put_keyed(&h, "a", 4).await;
    let first = h.claim_one(worker).await;
    assert_eq!(h.act(&put[1..2], Action::Cancel).await.done, 1);
    h.done(&first).await;
    check_lanes(&h).await;
    assert_eq!(h.act(&put[2..3], Action::Cancel).await.done, 1, "the head");
    check_lanes(&h).await;
    assert_eq!(ids(&h.claim(worker, 10).await), put[3..]);
    check_lanes(&h).await;
}

/// A returned job is superseded by its duplicate, and its slot is given on.
pub async fn a_superseded_job_gives_its_slot_on(h: Harness) {
    let worker = h.worker().await;
    let unique =
        |key: &str| NewJob { unique: Some(Unique::until_started("u", OnConflict::Keep)), ..keyed(&h, key) };
    h.put(unique("a")).await;
    let running = h.claim_one(worker).await;
    let behind = h.put(keyed(&h, "a")).await;
    let duplicate = h.put(NewJob { run_at: RunAt::In(10 * MINUTE), ..unique("b") }).await;
    assert_eq!(h.settle(&running, retry()).await, Settled::Superseded);
    handed_over(&h, worker, &[behind]).await;
    h.advance(11 * MINUTE);
    assert_eq!(ids(&h.claim(worker, 10).await), [duplicate]);
}

/// Jobs enqueued while the lane was full caused no lane check each, and all run.
pub async fn every_job_behind_a_full_lane_runs(h: Harness) {
    let worker = h.worker().await;
    let mut put = put_keyed(&h, "a", 1).await;
    let mut running = h.claim_one(worker).await;
    for _ in 0..4 {
        put.push(h.put(keyed(&h, "a")).await);
    }
    let ahead = h.put(NewJob { run_at: RunAt::In(10 * MINUTE), ..keyed(&h, "a") }).await;
    let soon = Change { priority: None, run_at: Some(h.now().await.plus(MINUTE)) };
    assert!(h.store.change(put[4], &soon, None).await.unwrap());
    for id in &put[1..4] {
        h.done(&running).await;
        running = handed_over(&h, worker, &[*id]).await.remove(0);
    }
    h.done(&running).await;
    handed_over(&h, worker, &[]).await;
    for (id, by) in [(put[4], 2 * MINUTE), (ahead, 11 * MINUTE)] {
        h.advance(by);
        let running = h.claim_one(worker).await;
        assert_eq!(running.id, id);
        h.done(&running).await;
    }
    let last = h.put(keyed(&h, "a")).await;
    assert_eq!(ids(&h.claim(worker, 10).await), [last], "an empty lane accepts jobs again");
    check_lanes(&h).await;
}

/// A ready job keeps its slot; a blocked job that was made more urgent is next.
pub async fn a_changed_priority_applies_at_once(h: Harness) {
    let worker = h.worker().await;
    let urgent = Change { priority: Some(0), run_at: None };
    for ready in [true, false] {
        h.put(NewJob { priority: 1, ..keyed(&h, "a") }).await;
        let running = h.claim_one(worker).await;
        let put = put_keyed(&h, "a", 3).await;
        h.done(&running).await;
        let plain = h.put_plain(2).await;
        let changed = if ready { put[0] } else { put[2] };
        assert!(h.store.change(changed, &urgent, None).await.unwrap());
        check_lanes(&h).await;
        let expected = if ready { [put[0], put[1], put[2]] } else { [put[0], put[2], put[1]] };
        let mut order = Vec::new();
        while order.len() < put.len() {
            for job in h.claim(worker, 10).await {
                order.extend(Some(job.id).filter(|id| !plain.contains(id)));
                h.done(&job).await;
            }
        }
        assert_eq!(order, expected, "of a ready job: {ready}");
        check_lanes(&h).await;
    }
}
