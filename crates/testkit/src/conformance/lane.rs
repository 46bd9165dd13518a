//! Lanes: a limited number of jobs of a kind that share a key are ready or running at once; the others are blocked.

use std::time::Duration;

use windlass_core::store::{Claim, JobFilter, KindUpdate, Live, Page, QueueUpdate, Settled};
use windlass_core::{JobId, JobState, KindSpec, LeasedJob, NewJob, OnConflict, Outcome, RunAt, Unique};

use super::{Harness, KIND, QUEUE, settlement};

pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn keyed(h: &Harness, key: &str) -> NewJob {
    NewJob { concurrency_key: Some(key.to_owned()), ..h.job() }
}

pub(super) async fn put_keyed(h: &Harness, key: &str, count: usize) -> Vec<JobId> {
    let got = h.store.enqueue(&vec![keyed(h, key); count]).await.unwrap();
    got.into_iter().map(|e| e.id).collect()
}

/// Sets the limit per key of [`KIND`].
pub(super) async fn limit(h: &Harness, key_concurrency: u16) {
    let kind = KindSpec { key_concurrency, ..KindSpec::new(KIND, QUEUE) };
    h.store.sync_registry(&[], &[kind], None).await.unwrap();
}

pub(super) fn ids(jobs: &[LeasedJob]) -> Vec<JobId> {
    jobs.iter().map(|j| j.id).collect()
}

pub(super) fn retry() -> Outcome {
    Outcome::Retry { after: Some(10 * MINUTE), error: "no".to_owned() }
}

/// The store finds no inconsistency: each slot has a job, each ready job has a slot, and no lane is forgotten.
pub(super) async fn check_lanes(h: &Harness) {
    let findings = h.store.examine().await.unwrap();
    let lanes = findings.iter().find(|f| f.name == "lanes").expect("a line about lanes");
    assert!(lanes.ok, "{}", lanes.finding);
}

pub async fn one_of_a_key_at_a_time(h: Harness) {
    let put = put_keyed(&h, "a", 3).await;
    let worker = h.worker().await;
    for id in put {
        let leased = h.claim(worker, 10).await;
        assert_eq!(ids(&leased), [id]);
        assert!(h.claim(worker, 10).await.is_empty(), "its lane is taken");
        check_lanes(&h).await;
        h.done(&leased[0]).await;
    }
    assert!(h.claim(worker, 10).await.is_empty());
    check_lanes(&h).await;
}

pub async fn at_most_key_concurrency_jobs_run(h: Harness) {
    limit(&h, 3).await;
    let put = put_keyed(&h, "a", 7).await;
    let worker = h.worker().await;
    let leased = h.claim(worker, 10).await;
    assert_eq!(ids(&leased), put[..3]);
    h.done(&leased[1]).await;
    let fourth = h.claim(worker, 10).await;
    assert_eq!(ids(&fourth), put[3..4]);
    for job in [&leased[0], &leased[2], &fourth[0]] {
        h.done(job).await;
    }
    assert_eq!(ids(&h.claim(worker, 10).await), put[4..]);
    check_lanes(&h).await;
}

/// A live limit applies at once and survives a restart. When it is removed, the configuration applies.
pub async fn a_live_limit_overrides_the_configuration_until_removed(h: Harness) {
    let put = put_keyed(&h, "a", 8).await;
    let worker = h.worker().await;
    let mut running = h.claim(worker, 10).await;
    assert_eq!(ids(&running), put[..1]);
    let live =
        |key_concurrency| KindUpdate { key_concurrency: Some(key_concurrency), ..KindUpdate::default() };
    assert!(h.store.update_kind(h.kind, &live(Live::Set(3))).await.unwrap());
    running.extend(h.claim(worker, 10).await);
    assert_eq!(ids(&running), put[..3]);
    limit(&h, 5).await;
    assert!(h.claim(worker, 10).await.is_empty(), "a start with another configuration changes nothing");
    assert_eq!(limit_of(&h).await, 3);

    assert!(h.store.update_kind(h.kind, &live(Live::Configured)).await.unwrap());
    assert_eq!(limit_of(&h).await, 5);
    running.extend(h.claim(worker, 10).await);
    assert_eq!(ids(&running), put[..5]);

    assert!(h.store.update_kind(h.kind, &live(Live::Set(1))).await.unwrap());
    let last = running.pop().unwrap();
    for job in &running {
        h.done(job).await;
        assert!(h.claim(worker, 10).await.is_empty(), "a lowered limit holds as jobs end");
    }
    h.done(&last).await;
    assert_eq!(ids(&h.claim(worker, 10).await), put[5..6]);
    check_lanes(&h).await;
}

async fn limit_of(h: &Harness) -> u16 {
    let kinds = h.store.kinds().await.unwrap();
    kinds.into_iter().find(|(id, ..)| *id == h.kind).unwrap().2.key_concurrency
}

pub async fn other_keys_and_jobs_without_a_key_are_not_blocked(h: Harness) {
    let a = put_keyed(&h, "a", 2).await;
    let b = put_keyed(&h, "b", 2).await;
    let plain = h.put_plain(2).await;
    let leased = h.claim(h.worker().await, 10).await;
    assert_eq!(ids(&leased), [a[0], b[0], plain[0], plain[1]]);
}

pub async fn a_key_of_another_kind_is_another_lane(h: Harness) {
    let one = h.put(keyed(&h, "a")).await;
    let other = h.put(NewJob { kind: h.second_kind, ..keyed(&h, "a") }).await;
    assert_eq!(ids(&h.claim(h.worker().await, 10).await), [one, other]);
}

pub async fn blocked_jobs_are_ordered_by_priority_time_and_id(h: Harness) {
    let start = h.now().await;
    let at = |priority, seconds| NewJob {
        priority,
        run_at: RunAt::At(start.plus(Duration::from_secs(seconds))),
        ..keyed(&h, "a")
    };
    let jobs = [at(10, 60), at(5, 120), at(5, 60), at(0, 180), at(5, 60), at(0, 60), at(1, 60)];
    let put = h.store.enqueue(&jobs).await.unwrap();
    h.advance(10 * MINUTE);
    let worker = h.worker().await;
    for n in [5, 3, 6, 2, 4, 1, 0] {
        let leased = h.claim(worker, 10).await;
        assert_eq!(ids(&leased), [put[n].id], "the {n}th that was put");
        h.done(&leased[0]).await;
    }
}

/// A key with many jobs does not delay one with a single job.
pub async fn keys_take_turns(h: Harness) {
    let many = put_keyed(&h, "many", 4).await;
    let plain = h.put_plain(1).await;
    let few = put_keyed(&h, "few", 2).await;
    let worker = h.worker().await;
    let mut order = Vec::new();
    for _ in 0..7 {
        let leased = h.claim_one(worker).await;
        order.push(leased.id);
        h.done(&leased).await;
    }
    assert_eq!(order, [many[0], plain[0], few[0], many[1], few[1], many[2], many[3]]);
}

pub async fn a_blocked_job_is_shown_as_waiting(h: Harness) {
    let put = put_keyed(&h, "a", 3).await;
    let ahead = h.put(NewJob { run_at: RunAt::In(MINUTE), ..keyed(&h, "a") }).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let detail = h.detail(put[1]).await.job;
    assert_eq!((detail.state, detail.attempt), (JobState::Pending, 0));
    assert_eq!(detail.concurrency_key.as_deref(), Some("a"));
    assert_eq!(h.state(ahead).await, JobState::Scheduled);
    assert_eq!((h.count(JobState::Pending).await, h.count(JobState::Scheduled).await), (2, 1));
    assert_eq!(h.store.depth(h.queue, 100).await.unwrap(), 3);
    assert_eq!(h.store.depth(h.queue, 2).await.unwrap(), 2);
    let filter = JobFilter { states: vec![JobState::Pending], queue: Some(h.queue), ..JobFilter::default() };
    assert_eq!(h.store.count(&filter).await.unwrap(), 2);
    let page = Page { before: None, limit: 10, excerpt: None };
    let listed: Vec<JobId> = h.store.list(&filter, &page).await.unwrap().iter().map(|j| j.id).collect();
    assert_eq!(listed, [put[2], put[1]]);
    let queues = h.store.queues().await.unwrap();
    let queue = queues.iter().find(|q| q.id == h.queue).unwrap();
    assert_eq!((queue.depth, queue.scheduled, queue.running), (2, 1, 1));
    assert!(queue.oldest.is_some());
    let due = h.poll(worker).await.queues.into_iter().find(|q| q.queue == h.queue).unwrap();
    assert_eq!(due.next_due, h.detail(ahead).await.job.run_at, "a blocked job is not due");
    h.done(&leased).await;
    let poll = h.poll(worker).await;
    let due = poll.queues.iter().find(|q| q.queue == h.queue).unwrap().next_due;
    assert!(due.is_some_and(|due| due <= poll.now), "the next job is due");
}

pub async fn a_scheduled_job_joins_its_lane_when_due(h: Harness) {
    let worker = h.worker().await;
    let later = h.put(NewJob { run_at: RunAt::In(10 * MINUTE), ..keyed(&h, "a") }).await;
    let now = h.put(keyed(&h, "a")).await;
    let first = h.claim(worker, 10).await;
    assert_eq!(ids(&first), [now], "it does not wait for a job that is not due");
    h.advance(11 * MINUTE);
    assert!(h.claim(worker, 10).await.is_empty(), "due by now, but the lane is taken");
    assert_eq!(h.state(later).await, JobState::Pending);
    let due = h.poll(worker).await.queues.into_iter().find(|q| q.queue == h.queue).unwrap();
    assert_eq!(due.next_due, None, "the lane was checked once");
    check_lanes(&h).await;
    h.done(&first[0]).await;
    assert_eq!(ids(&h.claim(worker, 10).await), [later]);
    check_lanes(&h).await;
}

/// A job with a free lane is ordered by its own time, as without a key.
pub async fn a_key_does_not_change_the_order_in_a_free_lane(h: Harness) {
    let first = h.put(keyed(&h, "a")).await;
    let plain = h.put_plain(2).await;
    let stood = h.detail(first).await.job.run_at;
    h.advance(10 * MINUTE);
    let leased = h.claim(h.worker().await, 1).await;
    assert_eq!((ids(&leased), Some(leased[0].run_at)), (vec![first], stood));
    assert_eq!(h.state(plain[0]).await, JobState::Pending);
}

pub async fn a_raised_limit_applies_at_once_and_a_lowered_one_as_jobs_end(h: Harness) {
    let put = put_keyed(&h, "a", 6).await;
    let worker = h.worker().await;
    let mut leased = h.claim(worker, 10).await;
    limit(&h, 3).await;
    leased.extend(h.claim(worker, 10).await);
    assert_eq!(ids(&leased), put[..3]);
    limit(&h, 1).await;
    for job in &leased[..2] {
        h.done(job).await;
        assert!(h.claim(worker, 10).await.is_empty(), "more run than may");
    }
    h.done(&leased[2]).await;
    assert_eq!(ids(&h.claim(worker, 10).await), put[3..4]);
    check_lanes(&h).await;
}

pub async fn a_blocked_job_holds_its_unique_key(h: Harness) {
    let job =
        |on_conflict| NewJob { unique: Some(Unique::until_started("u", on_conflict)), ..keyed(&h, "a") };
    put_keyed(&h, "a", 1).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let lined = h.put(job(OnConflict::Keep)).await;
    let met = h.store.enqueue(&[job(OnConflict::Keep)]).await.unwrap()[0];
    assert_eq!((met.id, met.duplicate), (lined, true));
    let plain = h.unique("u", OnConflict::Keep);
    let met = h.store.enqueue(&[plain]).await.unwrap()[0];
    assert_eq!((met.id, met.duplicate), (lined, true), "with or without a lane of its own");
    assert!(h.store.enqueue(&[job(OnConflict::Reject)]).await.is_err());
    h.done(&leased).await;
    assert_eq!(ids(&h.claim(worker, 10).await), [lined]);
}

pub async fn a_paused_queue_promotes_no_job(h: Harness) {
    let put = put_keyed(&h, "a", 2).await;
    let worker = h.worker().await;
    let pause = |paused| QueueUpdate { paused: Some(paused), ..QueueUpdate::default() };
    assert!(h.store.update_queue(h.queue, &pause(true)).await.unwrap());
    assert!(h.claim(worker, 10).await.is_empty());
    assert!(h.store.update_queue(h.queue, &pause(false)).await.unwrap());
    assert_eq!(ids(&h.claim(worker, 10).await), put[..1]);
}

pub async fn a_claim_promotes_only_lanes_of_its_kinds(h: Harness) {
    let put = put_keyed(&h, "a", 1).await;
    let worker = h.worker().await;
    let other = Claim { kinds: vec![h.second_kind], ..h.ask(worker, 10) };
    assert!(h.store.claim(&other).await.unwrap().is_empty());
    assert_eq!(ids(&h.claim(worker, 10).await), put);
}

pub async fn keyed_jobs_in_a_callers_transaction(h: Harness) {
    let worker = h.worker().await;
    let mut tx = h.store.begin().await.unwrap();
    h.store.enqueue_in(tx.tx(), &[keyed(&h, "a"), keyed(&h, "a")]).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(h.claim(worker, 10).await.is_empty());
    check_lanes(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    let put = h.store.enqueue_in(tx.tx(), &[keyed(&h, "a"), keyed(&h, "a")]).await.unwrap();
    tx.commit().await.unwrap();
    let leased = h.claim_one(worker).await;
    assert_eq!(leased.id, put[0].id);
    let done = settlement(&leased, Outcome::Done { result: None });
    let mut tx = h.store.begin().await.unwrap();
    assert_eq!(h.store.settle_in(tx.tx(), &done).await.unwrap(), Settled::Accepted);
    tx.rollback().await.unwrap();
    assert!(h.claim(worker, 10).await.is_empty(), "it still runs");
    check_lanes(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    assert_eq!(h.store.settle_in(tx.tx(), &done).await.unwrap(), Settled::Accepted);
    tx.commit().await.unwrap();
    assert_eq!(h.claim_one(worker).await.id, put[1].id);
    check_lanes(&h).await;
}
