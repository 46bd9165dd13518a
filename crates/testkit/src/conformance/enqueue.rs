//! Enqueue: jobs are stored whole and in order, never run early, and are accepted all or none.

use std::time::Duration;

use windlass_core::store::{JobFilter, StoreError};
use windlass_core::{EntityRef, JobState, NewJob, OnConflict, RunAt};

use super::Harness;

const MINUTE: Duration = Duration::from_secs(60);

pub async fn one_job_is_stored_whole(h: Harness) {
    let before = h.now().await;
    let job = NewJob {
        priority: 3,
        payload: vec![0, 159, 146, 150, 0],
        max_attempts: 7,
        timeout: Some(Duration::from_millis(1_500)),
        concurrency_key: Some("customer 1".to_owned()),
        tags: vec!["red".to_owned(), "blue".to_owned()],
        entity: Some(EntityRef { entity_type: "Post".to_owned(), entity_id: "ä 1".to_owned() }),
        ..h.unique("key", OnConflict::Keep)
    };
    let id = h.put(job.clone()).await;
    let after = h.now().await;
    let detail = h.detail(id).await;
    let got = &detail.job;
    assert_eq!(got.id, id);
    assert_eq!((got.kind.as_str(), got.queue.as_str()), (super::KIND, super::QUEUE));
    assert_eq!(got.state, JobState::Pending);
    assert_eq!((got.priority, got.attempt, got.max_attempts), (3, 0, 7));
    assert_eq!(got.payload, job.payload);
    assert_eq!(got.timeout, job.timeout);
    assert_eq!(got.unique_key.as_deref(), Some("key"));
    assert_eq!(got.concurrency_key, job.concurrency_key);
    assert_eq!(got.tags, job.tags);
    assert_eq!(got.entity, job.entity);
    assert!((before..=after).contains(&got.created_at), "{before} {} {after}", got.created_at);
    let run_at = got.run_at.expect("a waiting job has its time");
    assert!((before..=after).contains(&run_at), "{before} {run_at} {after}");
    assert_eq!((got.started_at, got.finished_at), (None, None));
    assert!(got.progress.is_none() && got.result.is_none() && got.last_error.is_none());
    assert_eq!(got.worker, None);
    assert!(detail.attempts.is_empty() && detail.logs.is_empty() && !detail.cancel_requested);
}

pub async fn none_is_no_error(h: Harness) {
    assert!(h.store.enqueue(&[]).await.unwrap().is_empty());
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 0);
}

pub async fn many_in_order_with_growing_ids(h: Harness) {
    const COUNT: usize = 10_000;
    let jobs: Vec<NewJob> =
        (0..COUNT).map(|n| NewJob { payload: n.to_string().into_bytes(), ..h.job() }).collect();
    let got = h.store.enqueue(&jobs).await.unwrap();
    assert_eq!(got.len(), COUNT);
    assert!(got.iter().all(|e| !e.duplicate));
    assert!(got.windows(2).all(|pair| pair[0].id < pair[1].id), "ids grow in the order of the call");
    for n in [0, 1, COUNT / 2, COUNT - 1] {
        assert_eq!(h.detail(got[n].id).await.job.payload, n.to_string().into_bytes());
    }
    let next = h.put(h.job()).await;
    assert!(next > got[COUNT - 1].id, "ids grow from call to call");
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), COUNT as u64 + 1);
    let leased = h.claim(h.worker().await, 20).await;
    let first: Vec<_> = got[..20].iter().map(|e| e.id).collect();
    assert_eq!(leased.iter().map(|j| j.id).collect::<Vec<_>>(), first);
}

pub async fn delayed_is_not_early(h: Harness) {
    let before = h.now().await;
    let id = h.put(h.delayed(10 * MINUTE)).await;
    let after = h.now().await;
    let job = h.detail(id).await.job;
    assert_eq!(job.state, JobState::Scheduled);
    let run_at = job.run_at.unwrap();
    assert!((before.plus(10 * MINUTE)..=after.plus(10 * MINUTE)).contains(&run_at), "{run_at}");
    let worker = h.worker().await;
    assert!(h.claim(worker, 10).await.is_empty());
    h.advance(9 * MINUTE);
    assert!(h.claim(worker, 10).await.is_empty(), "a minute early");
    assert_eq!(h.state(id).await, JobState::Scheduled);
    h.advance(2 * MINUTE);
    assert_eq!(h.state(id).await, JobState::Pending);
    let leased = h.claim_one(worker).await;
    assert_eq!((leased.id, leased.run_at), (id, run_at));
}

pub async fn a_fixed_time_is_kept(h: Harness) {
    let at = h.now().await.plus(10 * MINUTE);
    let id = h.put(NewJob { run_at: RunAt::At(at), ..h.job() }).await;
    let job = h.detail(id).await.job;
    assert_eq!((job.state, job.run_at), (JobState::Scheduled, Some(at)));
}

/// Otherwise a caller could overtake all waiting jobs.
pub async fn a_past_time_is_now(h: Harness) {
    let first = h.put(h.job()).await;
    let before = h.now().await;
    let past = h.put(NewJob { run_at: RunAt::At(before.minus(60 * MINUTE)), ..h.job() }).await;
    let run_at = h.detail(past).await.job.run_at.unwrap();
    assert!(run_at >= before, "{run_at} lies before the enqueue at {before}");
    let leased = h.claim(h.worker().await, 10).await;
    assert_eq!(leased.iter().map(|j| j.id).collect::<Vec<_>>(), [first, past]);
}

pub async fn one_refused_job_refuses_the_batch(h: Harness) {
    let waiting = h.put(h.unique("taken", OnConflict::Reject)).await;
    let batch = [h.job(), h.unique("free", OnConflict::Keep), h.unique("taken", OnConflict::Reject), h.job()];
    match h.store.enqueue(&batch).await {
        Err(StoreError::UniqueRejected { key, existing }) => {
            assert_eq!((key.as_str(), existing), ("taken", waiting))
        }
        other => panic!("expected UniqueRejected, got {other:?}"),
    }
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1);
    h.put(h.unique("free", OnConflict::Reject)).await;
}

pub async fn two_handles_never_share_an_id(h: Harness) {
    let second = h.open().await;
    let jobs = vec![h.job(); 50];
    let mut ids = std::collections::HashSet::new();
    for _ in 0..10 {
        let (one, two) = tokio::join!(h.store.enqueue(&jobs), second.enqueue(&jobs));
        ids.extend(one.unwrap().into_iter().chain(two.unwrap()).map(|e| e.id));
    }
    assert_eq!(ids.len(), 1_000);
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1_000);
}
