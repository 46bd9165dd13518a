//! Due times and leases follow the database's clock. A clock jump alone takes no lease away.

use std::time::Duration;

use windlass_core::{JobState, Time};

use super::Harness;
use super::harness::LEASE;
use super::harness::unexplained;

const HOUR: i64 = 3_600;
const MINUTE: Duration = Duration::from_secs(60);

pub async fn the_offset_moves_one_handle(h: Harness) {
    let second = h.open().await;
    let real = h.now().await;
    for seconds in [HOUR, -HOUR, 0] {
        h.store.set_clock_offset(seconds * 1_000_000);
        let moved = h.now().await;
        let expected = Time(real.0 + seconds * 1_000_000);
        assert!(
            moved >= expected && moved < expected.plus(MINUTE),
            "{seconds}: {moved}, expected {expected}"
        );
        let other = second.now().await.unwrap();
        assert!(
            other >= real && other < real.plus(MINUTE),
            "the other handle stays at {real}, is at {other}"
        );
    }
}

pub async fn expired_follows_the_clock(h: Harness) {
    let worker = h.worker().await;
    for (seconds, expired) in [(0, false), (50, false), (70, true), (HOUR, true), (0, false), (-HOUR, false)]
    {
        h.set_clock(seconds);
        assert_eq!(h.beat(worker).await.expired, expired, "at {seconds} s of a lease of {LEASE:?}");
    }
}

pub async fn a_beat_extends_the_lease_from_its_own_time(h: Harness) {
    let worker = h.worker().await;
    let lease = h.beat(worker).await.lease;
    assert_eq!(lease, LEASE);
    h.set_clock(HOUR);
    assert!(h.beat(worker).await.expired);
    assert!(h.store.heartbeat(worker).await.unwrap(), "expired is not dead");
    assert!(!h.beat(worker).await.expired);
    h.set_clock(HOUR + 50);
    assert!(!h.beat(worker).await.expired);
    h.set_clock(HOUR + 70);
    assert!(h.beat(worker).await.expired);
}

/// A lease that was not reclaimed stays valid at any clock.
async fn survives(h: &Harness, seconds: i64) {
    h.set_clock(0);
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    h.set_clock(seconds);
    assert_eq!(h.state(id).await, JobState::Running);
    assert!(h.claim(h.worker().await, 10).await.is_empty(), "a claim does not sweep");
    assert!(h.claim_suspect(h.worker().await).await.is_none());
    h.poll(worker).await;
    assert!(h.store.heartbeat(worker).await.unwrap());
    h.done(&leased).await;
    assert_eq!(h.state(id).await, JobState::Completed);
}

pub async fn an_hour_ahead_takes_no_lease(h: Harness) {
    survives(&h, HOUR).await;
}

pub async fn an_hour_back_takes_no_lease(h: Harness) {
    survives(&h, -HOUR).await;
}

/// The sweeper read the heartbeat before the jump. The worker has beaten since, so the reclaim is refused although the
/// clock says that the lease expired.
pub async fn a_new_heartbeat_prevents_reclaim_whatever_the_clock(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let before = h.beat(worker).await;
    assert!(h.store.heartbeat(worker).await.unwrap());
    h.set_clock(HOUR);
    assert!(h.beat(worker).await.expired);
    assert_eq!(h.store.reclaim(&unexplained(before)).await.unwrap(), None);
    assert_eq!(h.state(id).await, JobState::Running);
    h.done(&leased).await;
}

pub async fn due_times_follow_the_clock(h: Harness) {
    let id = h.put(h.delayed(30 * MINUTE)).await;
    let worker = h.worker().await;
    for seconds in [-HOUR, 0, 1_700] {
        h.set_clock(seconds);
        assert_eq!(h.state(id).await, JobState::Scheduled, "at {seconds} s");
        assert!(h.claim(worker, 10).await.is_empty(), "at {seconds} s");
    }
    h.set_clock(1_900);
    assert_eq!(h.state(id).await, JobState::Pending);
    assert_eq!(h.claim_one(worker).await.id, id);
}

/// A job enqueued while the clock was an hour back is due at its own time and is not lost behind the others.
pub async fn jobs_enqueued_across_a_clock_jump_all_run(h: Harness) {
    let mut put = Vec::new();
    for seconds in [HOUR, -HOUR, 0, HOUR] {
        h.set_clock(seconds);
        put.push(h.put(h.job()).await);
    }
    h.set_clock(HOUR + 60);
    let mut got: Vec<_> = h.claim(h.worker().await, 10).await.iter().map(|j| j.id).collect();
    got.sort_unstable();
    put.sort_unstable();
    put.dedup();
    assert_eq!(put.len(), 4, "four different ids");
    assert_eq!(got, put);
}
