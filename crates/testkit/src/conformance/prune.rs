//! Retention: only old, finished rows are pruned, and a dry run counts the same rows.

use std::time::Duration;

use windlass_core::store::{JobFilter, LATENCY_BUCKETS, Prune, PruneWhat, Rollup};
use windlass_core::{Idempotency, JobId, JobState, NewJob, Time};

use super::Harness;
use super::moves::one_in_each_state;

const DAY: Duration = Duration::from_secs(86_400);

async fn prune(h: &Harness, what: PruneWhat, days: u32, dry_run: bool) -> u64 {
    h.store.prune(&Prune { what, older_than: days * DAY, dry_run }, None).await.unwrap()
}

async fn left(h: &Harness) -> Vec<JobState> {
    let filter = |state| JobFilter { states: vec![state], ..JobFilter::default() };
    let mut left = Vec::new();
    for state in JobState::ALL {
        left.extend(vec![state; h.store.count(&filter(state)).await.unwrap() as usize]);
    }
    left
}

pub async fn finished_jobs_and_dead_letters_are_pruned_separately(h: Harness) {
    one_in_each_state(&h).await;
    h.advance(10 * DAY);
    use JobState::*;
    assert_eq!(prune(&h, PruneWhat::Finished, 30, false).await, 0, "nothing is that old");
    assert_eq!(prune(&h, PruneWhat::DeadLetters, 30, false).await, 0);
    assert_eq!(prune(&h, PruneWhat::Finished, 5, false).await, 3);
    assert_eq!(left(&h).await, [Scheduled, Pending, Running, Failed, DeadLetter]);
    assert_eq!(prune(&h, PruneWhat::DeadLetters, 5, false).await, 2);
    assert_eq!(left(&h).await, [Scheduled, Pending, Running], "work that is not over is never pruned");
    assert_eq!(prune(&h, PruneWhat::Finished, 5, false).await, 0);
}

pub async fn a_dry_run_counts_and_changes_nothing(h: Harness) {
    one_in_each_state(&h).await;
    h.advance(10 * DAY);
    for _ in 0..2 {
        assert_eq!(prune(&h, PruneWhat::Finished, 5, true).await, 3);
        assert_eq!(prune(&h, PruneWhat::DeadLetters, 5, true).await, 2);
    }
    assert_eq!(left(&h).await, JobState::ALL);
    assert_eq!(prune(&h, PruneWhat::Finished, 30, true).await, 0);
}

/// An old job that ended yesterday stays.
pub async fn age_counts_from_the_end(h: Harness) {
    let put = h.put_plain(3).await;
    let worker = h.worker().await;
    let leased = h.claim(worker, 2).await;
    h.done(&leased[0]).await;
    h.advance(10 * DAY);
    h.done(&leased[1]).await;
    let late = h.claim_one(worker).await;
    h.done(&late).await;
    h.advance(DAY);
    assert_eq!(prune(&h, PruneWhat::Finished, 5, true).await, 1);
    assert_eq!(prune(&h, PruneWhat::Finished, 5, false).await, 1);
    assert!(h.store.job(put[0]).await.unwrap().is_none());
    for id in &put[1..] {
        assert_eq!(h.state(*id).await, JobState::Completed);
    }
}

/// More rows than one transaction removes.
pub async fn many_are_pruned_in_one_call(h: Harness) {
    const COUNT: usize = 3_000;
    h.put_plain(COUNT).await;
    let leased = h.claim(h.worker().await, COUNT as u32).await;
    let done = |job| super::settlement(job, windlass_core::Outcome::Done { result: None });
    h.store.settle(&leased.iter().map(done).collect::<Vec<_>>()).await.unwrap();
    let waiting = h.put(h.job()).await;
    h.advance(10 * DAY);
    assert_eq!(prune(&h, PruneWhat::Finished, 5, true).await, COUNT as u64);
    assert_eq!(prune(&h, PruneWhat::Finished, 5, false).await, COUNT as u64);
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1);
    assert_eq!(h.claim_one(h.worker().await).await.id, waiting);
}

pub async fn idempotency_keys_by_their_age(h: Harness) {
    let keyed = |key: &str| NewJob {
        idempotency: Some(Idempotency { key: key.to_owned(), fingerprint: b"f".to_vec() }),
        ..h.job()
    };
    let old: JobId = h.put(keyed("old")).await;
    h.advance(10 * DAY);
    h.put(keyed("new")).await;
    h.advance(DAY);
    assert_eq!(prune(&h, PruneWhat::Idempotency, 5, true).await, 1);
    assert!(h.store.enqueue(&[keyed("old")]).await.unwrap()[0].duplicate, "a dry run forgets nothing");
    assert_eq!(prune(&h, PruneWhat::Idempotency, 5, false).await, 1);
    assert_ne!(h.put(keyed("old")).await, old);
    assert!(h.store.enqueue(&[keyed("new")]).await.unwrap()[0].duplicate);
    assert_eq!(h.state(old).await, JobState::Pending, "the job itself stays");
}

pub async fn rollups_by_their_minute(h: Harness) {
    let minute = |time: Time| Time(time.0 / 60_000_000 * 60_000_000);
    let now = h.now().await;
    let rollup = |at: Time| Rollup {
        minute: minute(at),
        queue: h.queue,
        kind: h.kind,
        completed: 1,
        retried: 0,
        dead: 0,
        latency: vec![0; LATENCY_BUCKETS],
        run: Duration::ZERO,
    };
    h.store.record(&[rollup(now.minus(10 * DAY)), rollup(now)]).await.unwrap();
    assert_eq!(prune(&h, PruneWhat::Rollups, 5, true).await, 1);
    assert_eq!(h.store.rollups(Time(0)).await.unwrap().len(), 2);
    assert_eq!(prune(&h, PruneWhat::Rollups, 5, false).await, 1);
    let left = h.store.rollups(Time(0)).await.unwrap();
    assert_eq!(left.iter().map(|r| r.minute).collect::<Vec<_>>(), [minute(now)]);
}
