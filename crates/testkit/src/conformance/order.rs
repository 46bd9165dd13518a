//! Fairness: jobs that have been due too long get a share of the slots, whatever their priority.

use std::time::Duration;

use windlass_core::order::{DEFAULT_BOOST_AFTER, Reserve};
use windlass_core::store::{LateJobs, Live, QueueKinds, QueueUpdate};
use windlass_core::{JobId, JobState, NewJob, Outcome, QueueSpec, RunAt};

use super::lane::{check_lanes, ids, keyed, put_keyed};
use super::{Harness, QUEUE, settlement};

const MINUTE: Duration = Duration::from_secs(60);

fn of(h: &Harness, priority: u8) -> NewJob {
    NewJob { priority, ..h.job() }
}

pub async fn late_jobs_are_claimed_by_due_time_not_priority(h: Harness) {
    let mut put = Vec::new();
    for priority in [9, 2, 7, 0, 9] {
        put.push(h.put(of(&h, priority)).await);
        h.advance(MINUTE);
    }
    let worker = h.worker().await;
    let late = |limit| h.ask(worker, limit);
    let got = h.store.claim_late(&late(3), 2 * MINUTE).await.unwrap().jobs;
    assert_eq!(ids(&got), put[..3]);
    assert_eq!(got.iter().map(|job| job.attempt).collect::<Vec<_>>(), [1, 1, 1]);
    let got = h.store.claim_late(&late(3), 90 * MINUTE).await.unwrap().jobs;
    assert!(got.is_empty(), "no job is that late");
    let got = h.store.claim_late(&late(3), Duration::from_secs(90)).await.unwrap().jobs;
    assert_eq!(ids(&got), put[3..4], "the last is not late yet");
    assert_eq!(ids(&h.claim(worker, 10).await), put[4..]);
    for id in put {
        assert_eq!(h.state(id).await, JobState::Running);
    }
}

pub async fn late_jobs_are_settled_like_others(h: Harness) {
    put_keyed(&h, "a", 2).await;
    let plain = h.put(of(&h, 10)).await;
    h.advance(20 * MINUTE);
    let worker = h.worker().await;
    // Only an ordinary claim promotes blocked jobs.
    let got = h.store.claim_late(&h.ask(worker, 5), 10 * MINUTE).await.unwrap().jobs;
    assert_eq!(ids(&got), [plain]);
    h.done(&got[0]).await;
    assert_eq!(h.state(plain).await, JobState::Completed);
    let head = h.claim(worker, 5).await;
    assert_eq!(head.len(), 1);
    check_lanes(&h).await;
}

pub async fn late_jobs_respect_global_concurrency(h: Harness) {
    let update = QueueUpdate { global_concurrency: Some(Live::Set(Some(2))), ..QueueUpdate::default() };
    h.store.update_queue(h.queue, &update).await.unwrap();
    for priority in [9, 8, 7] {
        h.put(of(&h, priority)).await;
    }
    h.advance(20 * MINUTE);
    let worker = h.worker().await;
    let late = async || h.store.claim_late(&h.ask(worker, 5), 10 * MINUTE).await.unwrap();
    let LateJobs { jobs, waiting } = late().await;
    assert_eq!((jobs.len(), waiting), (2, true));
    let LateJobs { jobs: none, waiting } = late().await;
    assert_eq!((none.len(), waiting), (0, true), "a late job may wait for a free slot");
    for job in &jobs {
        h.done(job).await;
    }
    let LateJobs { jobs, waiting } = late().await;
    assert_eq!((jobs.len(), waiting), (1, false), "that was the last, and there was room");
}

pub async fn a_paused_queue_gives_no_late_jobs(h: Harness) {
    h.put(h.job()).await;
    h.advance(20 * MINUTE);
    let update = QueueUpdate { paused: Some(true), ..QueueUpdate::default() };
    h.store.update_queue(h.queue, &update).await.unwrap();
    let worker = h.worker().await;
    assert!(h.store.claim_late(&h.ask(worker, 5), 10 * MINUTE).await.unwrap().jobs.is_empty());
}

pub async fn boost_after_is_set_per_queue(h: Harness) {
    let boost = async |boost_after| {
        let spec = QueueSpec { boost_after, ..QueueSpec::named(QUEUE) };
        h.store.sync_registry(&[spec], &[], None).await.unwrap();
        let queues = h.store.queues().await.unwrap();
        queues.into_iter().find(|q| q.id == h.queue).unwrap().spec.boost_after
    };
    assert_eq!(boost(Some(DEFAULT_BOOST_AFTER)).await, Some(10 * MINUTE));
    assert_eq!(boost(Some(3 * MINUTE)).await, Some(3 * MINUTE));
    assert_eq!(boost(None).await, None);
}

/// A live value overrides the configuration, in queries and in polls, until it is removed.
pub async fn boost_after_can_be_changed_live(h: Harness) {
    let worker = h.worker().await;
    let live = async |boost_after: Option<Live<Option<Duration>>>| {
        let update = QueueUpdate { boost_after, paused: Some(false), ..QueueUpdate::default() };
        assert!(h.store.update_queue(h.queue, &update).await.unwrap());
        // A sync, as at the next start, must not change the live value.
        let spec = QueueSpec { boost_after: Some(3 * MINUTE), ..QueueSpec::named(QUEUE) };
        h.store.sync_registry(&[spec], &[], None).await.unwrap();
        let queues = h.store.queues().await.unwrap();
        let shown = queues.into_iter().find(|q| q.id == h.queue).unwrap().spec.boost_after;
        let asked = [QueueKinds { queue: h.queue, kinds: vec![h.kind] }];
        let reported = h.store.poll(worker, &asked).await.unwrap().queues[0].boost_after;
        assert_eq!(shown, reported);
        reported
    };
    assert_eq!(live(None).await, Some(3 * MINUTE));
    assert_eq!(live(Some(Live::Set(Some(MINUTE)))).await, Some(MINUTE));
    assert_eq!(live(None).await, Some(MINUTE), "another change leaves it");
    assert_eq!(live(Some(Live::Set(None))).await, None);
    assert_eq!(live(Some(Live::Configured)).await, Some(3 * MINUTE));
}

/// Each minute more urgent jobs are enqueued than claimed. Returns after how many minutes the least urgent job is
/// claimed.
async fn minutes_until_served(h: &Harness, boosted: bool) -> Option<u32> {
    const SLOTS: u32 = 4;
    let worker = h.worker().await;
    let low: JobId = h.put(NewJob { run_at: RunAt::Now, ..of(h, 10) }).await;
    let mut reserve = Reserve::default();
    for minute in 0..30 {
        h.store.enqueue(&vec![of(h, 0); SLOTS as usize + 1]).await.unwrap();
        let share = if boosted { reserve.share(SLOTS) } else { 0 };
        let mut leased = Vec::new();
        if share > 0 {
            leased = h.store.claim_late(&h.ask(worker, share), DEFAULT_BOOST_AFTER).await.unwrap().jobs;
        }
        let late = leased.len() as u32;
        leased.extend(h.claim(worker, SLOTS - late).await);
        assert_eq!(leased.len(), SLOTS as usize, "every slot is used");
        reserve.spend(share, late, false);
        reserve.earn(SLOTS);
        let batch: Vec<_> =
            leased.iter().map(|job| settlement(job, Outcome::Done { result: None })).collect();
        h.store.settle(&batch).await.unwrap();
        if leased.iter().any(|job| job.id == low) {
            return Some(minute);
        }
        h.advance(MINUTE);
    }
    None
}

pub async fn low_priority_is_served_in_time_under_urgent_load(h: Harness) {
    let served = minutes_until_served(&h, true).await.expect("it starves");
    assert!((10..=12).contains(&served), "after {served} minutes");
}

pub async fn without_boost_low_priority_starves(h: Harness) {
    assert_eq!(minutes_until_served(&h, false).await, None);
}

/// The same under one key with one slot.
async fn minutes_until_next_in_lane(h: &Harness, urgent: u8, minutes: u32) -> Option<u32> {
    let worker = h.worker().await;
    let of = |priority| NewJob { priority, ..keyed(h, "a") };
    let low = h.put(of(10)).await;
    for minute in 0..minutes {
        h.store.enqueue(&[of(urgent), of(urgent)]).await.unwrap();
        let leased = h.claim(worker, 5).await;
        assert_eq!(leased.len(), 1, "one slot");
        h.done(&leased[0]).await;
        check_lanes(h).await;
        if leased[0].id == low {
            return Some(minute);
        }
        h.advance(MINUTE);
    }
    None
}

/// From priority 10 to 0 takes ten steps of ten minutes.
pub async fn low_priority_is_served_in_time_inside_one_lane(h: Harness) {
    let served = minutes_until_next_in_lane(&h, 3, 120).await.expect("it starves");
    assert!((95..=101).contains(&served), "after {served} minutes");
}

/// The most urgent job is not due and has no effect.
pub async fn a_delayed_job_of_the_lane_changes_nothing(h: Harness) {
    h.put(NewJob { priority: 0, concurrency_key: Some("a".to_owned()), ..h.delayed(600 * MINUTE) }).await;
    assert!(minutes_until_next_in_lane(&h, 3, 120).await.is_some(), "it starves");
}

pub async fn low_priority_is_served_beside_the_most_urgent(h: Harness) {
    assert!(minutes_until_next_in_lane(&h, 0, 120).await.is_some(), "it starves");
}

pub async fn without_boost_low_priority_starves_inside_one_lane(h: Harness) {
    let off = QueueUpdate { boost_after: Some(Live::Set(None)), ..QueueUpdate::default() };
    h.store.update_queue(h.queue, &off).await.unwrap();
    assert_eq!(minutes_until_next_in_lane(&h, 3, 120).await, None);
}

/// 20 minutes overdue are two steps: priority 9 becomes 7, and 2 is still more urgent.
pub async fn an_overdue_job_rises_one_priority_at_a_time(h: Harness) {
    let worker = h.worker().await;
    let of = |priority| NewJob { priority, ..keyed(&h, "a") };
    let late: Vec<JobId> = h.store.enqueue(&vec![of(9); 3]).await.unwrap().iter().map(|e| e.id).collect();
    h.advance(20 * MINUTE);
    let mut running = h.claim(worker, 1).await.remove(0);
    let urgent = h.put(of(2)).await;
    let mut order = vec![running.id];
    for _ in 0..2 {
        h.done(&running).await;
        running = h.claim(worker, 5).await.remove(0);
        order.push(running.id);
    }
    assert_eq!(order, [late[0], urgent, late[1]]);
    check_lanes(&h).await;
}

/// One hour overdue is six steps: priority 9 becomes 3 and comes before a new job of 4. A returned job has its original
/// priority.
pub async fn overdue_jobs_rise_in_every_lane(h: Harness) {
    let of = |key: &str, priority| NewJob { priority, ..keyed(&h, key) };
    let mut late = Vec::new();
    for key in ["a", "b"] {
        for priority in [9, 9] {
            late.push(h.put(of(key, priority)).await);
        }
    }
    h.advance(61 * MINUTE);
    let young = h.put(of("c", 9)).await;
    for key in ["a", "b", "c"] {
        h.put(of(key, 4)).await;
    }
    let worker = h.worker().await;
    let got = h.claim(worker, 5).await;
    let mut first = ids(&got);
    first.sort_unstable();
    assert_eq!(got.len(), 3);
    assert_eq!(first[..2], [late[0], late[2]], "the longest due of two lanes");
    assert_eq!(h.state(young).await, JobState::Pending);
    let of_a = got.iter().find(|job| job.id == late[0]).unwrap();
    let back = Outcome::Snooze { delay: Duration::ZERO, why: None };
    h.store.settle(&[settlement(of_a, back)]).await.unwrap();
    assert_eq!(h.store.job(late[0]).await.unwrap().unwrap().job.priority, 9);
    check_lanes(&h).await;
}
