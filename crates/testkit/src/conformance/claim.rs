//! Claims: order, limits, and each job exactly once.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::store::{Claim, QueueUpdate};
use windlass_core::{JobId, JobState, LeasedJob, NewJob, Outcome, RunAt, WorkerId};

use super::Harness;

fn ids(jobs: &[LeasedJob]) -> Vec<JobId> {
    jobs.iter().map(|j| j.id).collect()
}

pub async fn priority_then_time_then_id(h: Harness) {
    let start = h.now().await;
    let at = |priority, seconds| NewJob {
        priority,
        run_at: RunAt::At(start.plus(Duration::from_secs(seconds))),
        ..h.job()
    };
    let jobs = [at(10, 60), at(5, 120), at(5, 60), at(0, 180), at(5, 60), at(0, 60), at(1, 60)];
    let put: Vec<JobId> = h.store.enqueue(&jobs).await.unwrap().iter().map(|e| e.id).collect();
    h.advance(Duration::from_secs(600));
    let expected: Vec<JobId> = [5, 3, 6, 2, 4, 1, 0].iter().map(|n: &usize| put[*n]).collect();
    let worker = h.worker().await;
    let mut got = ids(&h.claim(worker, 3).await);
    got.push(h.claim_one(worker).await.id);
    got.extend(ids(&h.claim(worker, 10).await));
    assert_eq!(got, expected);
}

/// The handler sees the leased copy.
pub async fn the_lease_carries_the_job(h: Harness) {
    let job = NewJob { priority: 2, max_attempts: 9, timeout: Some(Duration::from_secs(3)), ..h.job() };
    let id = h.put(job.clone()).await;
    let worker = h.worker().await;
    let before = h.now().await;
    let leased = h.claim_one(worker).await;
    let after = h.now().await;
    let shown = h.detail(id).await;
    assert_eq!((leased.id, leased.kind, leased.queue), (id, h.kind, h.queue));
    assert_eq!((leased.priority, leased.attempt, leased.max_attempts), (2, 1, 9));
    assert_eq!((&leased.payload, leased.timeout), (&job.payload, job.timeout));
    assert_eq!(leased.created_at, shown.job.created_at);
    assert!((before..=after).contains(&leased.claimed_at), "{before} {} {after}", leased.claimed_at);
    assert_eq!((shown.job.state, shown.job.attempt), (JobState::Running, 1));
    assert_eq!(shown.job.worker, Some(worker));
    assert!(shown.job.started_at.is_some() && shown.job.finished_at.is_none());
    assert_eq!(shown.attempts.len(), 1);
    let attempt = &shown.attempts[0];
    assert_eq!((attempt.attempt, attempt.token, attempt.worker), (1, leased.token, Some(worker)));
    assert_eq!((attempt.outcome.as_str(), attempt.ended_at), ("running", None));
}

pub async fn never_more_than_asked(h: Harness) {
    h.put_plain(20).await;
    let worker = h.worker().await;
    for limit in [1, 7, 3] {
        assert_eq!(h.claim(worker, limit).await.len(), limit as usize);
    }
    assert!(h.claim(worker, 0).await.is_empty());
    assert_eq!(h.claim(worker, 100).await.len(), 9, "what is left");
    assert!(h.claim(worker, 100).await.is_empty());
    assert_eq!(h.count(JobState::Running).await, 20);
}

/// Eight claimers on two handles take 1,000 jobs in small batches.
pub async fn eight_claimers_get_every_job_once(h: Harness) {
    const JOBS: usize = 1_000;
    const BITE: u32 = 7;
    let put = h.put_plain(JOBS).await;
    let second = h.open().await;
    let mut claimers = Vec::new();
    for n in 0..8 {
        let store = if n % 2 == 0 { h.store.clone() } else { second.clone() };
        let ask = h.ask(h.worker().await, BITE);
        claimers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            let mut empty = 0;
            // A claim may be empty because the others hold all locks, so several empty claims are needed to stop.
            while empty < 3 {
                let got = store.claim(&ask).await.unwrap();
                assert!(got.len() <= BITE as usize, "{} leased, {BITE} asked", got.len());
                empty = if got.is_empty() { empty + 1 } else { 0 };
                mine.extend(got);
            }
            mine
        }));
    }
    let mut times: HashMap<JobId, u32> = HashMap::new();
    for claimer in claimers {
        for job in claimer.await.unwrap() {
            *times.entry(job.id).or_default() += 1;
        }
    }
    let twice: Vec<_> = times.iter().filter(|(_, n)| **n > 1).collect();
    assert!(twice.is_empty(), "leased more than once: {twice:?}");
    let missed: Vec<_> = put.iter().filter(|id| !times.contains_key(id)).collect();
    assert!(missed.is_empty(), "never leased: {missed:?}");
    assert_eq!(h.count(JobState::Running).await, JOBS as u64);
}

pub async fn only_handled_kinds(h: Harness) {
    let worker = h.worker().await;
    let first = h.put(NewJob { kind: h.second_kind, priority: 0, ..h.job() }).await;
    let second = h.put(h.job()).await;
    let ask = |kinds| Claim { kinds, ..h.ask(worker, 10) };
    assert!(h.store.claim(&ask(vec![])).await.unwrap().is_empty(), "no kinds, no jobs");
    assert_eq!(ids(&h.store.claim(&ask(vec![h.kind])).await.unwrap()), [second]);
    assert_eq!(h.state(first).await, JobState::Pending);
    assert_eq!(ids(&h.store.claim(&ask(vec![h.second_kind])).await.unwrap()), [first]);
}

/// More unhandled jobs in front than a store might read at once.
pub async fn unhandled_kinds_do_not_hide_handled_ones(h: Harness) {
    let front = vec![NewJob { kind: h.second_kind, priority: 0, ..h.job() }; 2_000];
    h.store.enqueue(&front).await.unwrap();
    let wanted = h.put(h.job()).await;
    let ask = Claim { kinds: vec![h.kind], ..h.ask(h.worker().await, 5) };
    assert_eq!(ids(&h.store.claim(&ask).await.unwrap()), [wanted]);
}

pub async fn a_paused_queue_gives_nothing(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let pause = |paused| QueueUpdate { paused: Some(paused), ..QueueUpdate::default() };
    assert!(h.store.update_queue(h.queue, &pause(true)).await.unwrap());
    assert!(h.claim(worker, 10).await.is_empty());
    assert_eq!(h.state(id).await, JobState::Pending);
    assert!(h.open().await.claim(&h.ask(worker, 10)).await.unwrap().is_empty(), "nor through another handle");
    assert!(h.store.update_queue(h.queue, &pause(false)).await.unwrap());
    assert_eq!(h.claim_one(worker).await.id, id);
}

pub async fn only_the_requested_queue_is_claimed(h: Harness) {
    let worker = h.worker().await;
    let other = h.put(NewJob { kind: h.other_kind, queue: h.other_queue, ..h.job() }).await;
    let all = vec![h.kind, h.second_kind, h.other_kind];
    let mine = Claim { kinds: all.clone(), ..h.ask(worker, 10) };
    assert!(h.store.claim(&mine).await.unwrap().is_empty());
    assert_eq!(h.state(other).await, JobState::Pending);
    let theirs = Claim { queue: h.other_queue, kinds: all, ..h.ask(worker, 10) };
    assert_eq!(ids(&h.store.claim(&theirs).await.unwrap()), [other]);
}

/// Such a lease would never be renewed or swept.
pub async fn an_unknown_worker_leases_nothing(h: Harness) {
    let id = h.put(h.job()).await;
    let real = h.worker().await;
    assert!(h.claim(WorkerId(real.0 + 1_000_000), 10).await.is_empty());
    h.store.retire_worker(real).await.unwrap();
    assert!(h.claim(real, 10).await.is_empty(), "a retired worker");
    let lost = h.worker().await;
    h.lose(lost).await;
    assert!(h.claim(lost, 10).await.is_empty(), "a worker declared dead");
    let job = h.detail(id).await.job;
    assert_eq!((job.state, job.attempt), (JobState::Pending, 0));
}

pub async fn the_attempt_is_counted_at_claim(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    for attempt in 1..=4 {
        let leased = h.claim_one(worker).await;
        assert_eq!(leased.attempt, attempt);
        assert_eq!(h.detail(id).await.job.attempt, attempt);
        h.settle(&leased, Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() }).await;
    }
}

pub async fn tokens_increase(h: Harness) {
    h.put(h.job()).await;
    let (one, two) = (h.worker().await, h.worker().await);
    let second = h.open().await;
    let mut last = None;
    for round in 0..6 {
        let (store, worker) = if round % 2 == 0 { (&h.store, one) } else { (&second, two) };
        let leased = store.claim(&h.ask(worker, 1)).await.unwrap().remove(0);
        assert!(Some(leased.token) > last, "round {round}: {} after {last:?}", leased.token);
        last = Some(leased.token);
        h.settle(&leased, Outcome::HandBack).await;
    }
}
