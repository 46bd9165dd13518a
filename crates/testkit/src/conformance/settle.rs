//! Settlements: what is written for each outcome, in any order and in any batch.

use std::time::Duration;

use windlass_core::store::{JobFilter, Settled};
use windlass_core::{JobId, JobState, LeasedJob, NewJob, OnConflict, Outcome, Token};

use super::{Harness, settlement};

const SECOND: Duration = Duration::from_secs(1);

fn retry(after: Option<Duration>) -> Outcome {
    Outcome::Retry { after, error: "the server said no".to_owned() }
}

fn ids(jobs: &[LeasedJob]) -> Vec<JobId> {
    jobs.iter().map(|j| j.id).collect()
}

pub async fn none_is_no_error(h: Harness) {
    assert!(h.store.settle(&[]).await.unwrap().is_empty());
}

pub async fn done_keeps_its_result(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let result = vec![0, 255, 1, 2];
    assert_eq!(h.settle(&leased, Outcome::Done { result: Some(result.clone()) }).await, Settled::Accepted);
    let detail = h.detail(id).await;
    assert_eq!((detail.job.state, detail.job.attempt), (JobState::Completed, 1));
    assert_eq!(detail.job.result, Some(result));
    assert_eq!((detail.job.last_error.as_deref(), detail.job.worker), (None, Some(worker)));
    let (started, finished) = (detail.job.started_at.unwrap(), detail.job.finished_at.unwrap());
    assert!(leased.claimed_at <= started && started <= finished, "{started} {finished}");
    assert_eq!(detail.attempts.len(), 1);
    let attempt = &detail.attempts[0];
    assert_eq!((attempt.outcome.as_str(), attempt.token), ("completed", leased.token));
    assert!(attempt.ended_at.is_some() && attempt.error.is_none());
    assert!(h.claim(worker, 10).await.is_empty());
}

pub async fn retry_waits_and_keeps_its_attempt(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let before = h.now().await;
    assert_eq!(h.settle(&leased, retry(None)).await, Settled::Accepted);
    let after = h.now().await;
    let detail = h.detail(id).await;
    assert_eq!((detail.job.state, detail.job.attempt), (JobState::Scheduled, 1));
    assert_eq!(detail.job.last_error.as_deref(), Some("the server said no"));
    assert!(detail.job.finished_at.is_none());
    let run_at = detail.job.run_at.unwrap();
    assert!((before.plus(30 * SECOND)..=after.plus(30 * SECOND)).contains(&run_at), "{run_at}");
    assert_eq!(detail.attempts[0].outcome, "retry");
    assert_eq!(detail.attempts[0].error.as_deref(), Some("the server said no"));
    assert!(h.claim(worker, 10).await.is_empty(), "not before its time");
    h.advance(31 * SECOND);
    assert_eq!(h.claim_one(worker).await.attempt, 2);
}

pub async fn retry_after_is_honoured(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let before = h.now().await;
    h.settle(&leased, retry(Some(7_200 * SECOND))).await;
    assert!(h.detail(id).await.job.run_at.unwrap() >= before.plus(7_200 * SECOND));
    h.advance(7_100 * SECOND);
    assert!(h.claim(worker, 10).await.is_empty());
    h.advance(200 * SECOND);
    assert_eq!(h.claim_one(worker).await.attempt, 2);
}

pub async fn a_snooze_costs_no_attempt(h: Harness) {
    let id = h.put(NewJob { max_attempts: 1, ..h.job() }).await;
    let worker = h.worker().await;
    for round in 0..3 {
        let leased = h.claim_one(worker).await;
        assert_eq!((leased.id, leased.attempt), (id, 1));
        let why = (round % 2 == 1).then(|| "no money".to_owned());
        let snooze = Outcome::Snooze { delay: 20 * SECOND, why: why.clone() };
        assert_eq!(h.settle(&leased, snooze).await, Settled::Accepted);
        let job = h.detail(id).await.job;
        assert_eq!((job.state, job.attempt), (JobState::Scheduled, 0));
        assert!(h.claim(worker, 10).await.is_empty());
        h.advance(21 * SECOND);
    }
    let attempts = h.detail(id).await.attempts;
    let said: Vec<_> = attempts.iter().map(|a| (a.outcome.as_str(), a.error.as_deref())).collect();
    assert_eq!(said, [("snooze", None), ("snooze", Some("no money")), ("snooze", None)]);
}

pub async fn a_hand_back_costs_no_attempt_and_keeps_its_time(h: Harness) {
    let put = h.put_plain(4).await;
    let worker = h.worker().await;
    let leased = h.claim(worker, 2).await;
    let places: Vec<_> = leased.iter().map(|j| j.run_at).collect();
    let back: Vec<_> = leased.iter().map(|j| settlement(j, Outcome::HandBack)).collect();
    assert_eq!(h.store.settle(&back).await.unwrap(), [Settled::Accepted; 2]);
    let first = h.detail(put[0]).await;
    assert_eq!((first.job.state, first.job.attempt), (JobState::Pending, 0));
    assert_eq!(first.attempts[0].outcome, "handed_back");
    let again = h.claim(worker, 10).await;
    assert_eq!(ids(&again), put);
    assert_eq!(again[..2].iter().map(|j| j.run_at).collect::<Vec<_>>(), places);
    assert!(again.iter().all(|j| j.attempt == 1));
}

pub async fn fail_is_final(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    h.settle(&leased, Outcome::Fail { error: "no such feed".to_owned() }).await;
    let detail = h.detail(id).await;
    assert_eq!((detail.job.state, detail.job.attempt), (JobState::Failed, 1));
    assert_eq!(detail.job.last_error.as_deref(), Some("no such feed"));
    assert!(detail.job.finished_at.is_some());
    assert_eq!(detail.attempts[0].outcome, "failed");
    h.advance(86_400 * SECOND);
    assert!(h.claim(worker, 10).await.is_empty());
}

pub async fn attempts_run_out(h: Harness) {
    let id = h.put(NewJob { max_attempts: 3, ..h.job() }).await;
    let worker = h.worker().await;
    for attempt in 1..=3 {
        let leased = h.claim_one(worker).await;
        assert_eq!(leased.attempt, attempt);
        assert_eq!(h.settle(&leased, retry(Some(Duration::ZERO))).await, Settled::Accepted);
    }
    let detail = h.detail(id).await;
    assert_eq!((detail.job.state, detail.job.attempt), (JobState::DeadLetter, 3));
    assert_eq!(detail.job.last_error.as_deref(), Some("the server said no"));
    let outcomes: Vec<_> = detail.attempts.into_iter().map(|a| a.outcome).collect();
    assert_eq!(outcomes, ["retry", "retry", "dead_letter"]);
    assert!(h.claim(worker, 10).await.is_empty());
}

/// Jobs of one claim that are not settled yet stay leased.
pub async fn one_claim_is_settled_in_parts_and_any_order(h: Harness) {
    h.put_plain(6).await;
    let leased = h.claim(h.worker().await, 6).await;
    let done = |n: usize| settlement(&leased[n], Outcome::Done { result: None });
    let mut finished = 0;
    for piece in [vec![3], vec![5, 0], vec![1], vec![4, 2]] {
        let batch: Vec<_> = piece.iter().map(|n| done(*n)).collect();
        let got = h.store.settle(&batch).await.unwrap();
        assert_eq!(got, vec![Settled::Accepted; piece.len()], "{piece:?}");
        finished += piece.len() as u64;
        assert_eq!(h.count(JobState::Completed).await, finished);
        assert_eq!(h.count(JobState::Running).await, 6 - finished);
    }
}

/// Answers are in the order of the request, not of the claim.
pub async fn answers_are_in_the_order_of_the_request(h: Harness) {
    let put = h.put_plain(4).await;
    let leased = h.claim(h.worker().await, 4).await;
    let outcomes = [
        Outcome::Fail { error: "a".to_owned() },
        Outcome::Done { result: None },
        Outcome::Cancelled,
        Outcome::HandBack,
    ];
    let mut batch: Vec<_> = leased.iter().zip(outcomes).map(|(job, out)| settlement(job, out)).collect();
    batch.reverse();
    batch[1].token = Token(batch[1].token.0 + 1_000_000);
    let got = h.store.settle(&batch).await.unwrap();
    assert_eq!(got, [Settled::Accepted, Settled::Stale, Settled::Accepted, Settled::Accepted]);
    let mut states = Vec::new();
    for id in put {
        states.push(h.state(id).await);
    }
    assert_eq!(states, [JobState::Failed, JobState::Completed, JobState::Running, JobState::Pending]);
}

pub async fn a_second_settlement_is_stale(h: Harness) {
    let id = h.put(h.job()).await;
    let leased = h.claim_one(h.worker().await).await;
    h.settle(&leased, Outcome::Done { result: Some(b"first".to_vec()) }).await;
    let before = format!("{:?}", h.detail(id).await);
    let again = h.settle(&leased, Outcome::Done { result: Some(b"second".to_vec()) }).await;
    assert_eq!(again, Settled::Stale);
    assert_eq!(h.settle(&leased, retry(None)).await, Settled::Stale);
    assert_eq!(format!("{:?}", h.detail(id).await), before);
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1);
}

pub async fn a_mixed_batch_settles_the_others(h: Harness) {
    let worker = h.worker().await;
    let met = h.put(h.unique("k", OnConflict::Reject)).await;
    let put = h.put_plain(3).await;
    let leased = h.claim(worker, 4).await;
    let duplicate = h.put(h.unique("k", OnConflict::Reject)).await;
    h.done(&leased[1]).await;
    let batch = [
        settlement(&leased[1], retry(None)),
        settlement(&leased[0], retry(None)),
        settlement(&leased[2], Outcome::Done { result: None }),
        settlement(&leased[3], retry(None)),
    ];
    let got = h.store.settle(&batch).await.unwrap();
    assert_eq!(got, [Settled::Stale, Settled::Superseded, Settled::Accepted, Settled::Accepted]);
    assert_eq!(h.state(met).await, JobState::Superseded);
    assert_eq!(h.state(duplicate).await, JobState::Pending);
    let mut states = Vec::new();
    for id in put {
        states.push(h.state(id).await);
    }
    assert_eq!(states, [JobState::Completed, JobState::Completed, JobState::Scheduled]);
}

/// More jobs than a driver accepts as parameters.
pub async fn a_large_batch(h: Harness) {
    h.put_plain(2_000).await;
    let leased = h.claim(h.worker().await, 2_000).await;
    assert_eq!(leased.len(), 2_000);
    let batch: Vec<_> = leased
        .iter()
        .enumerate()
        .map(|(n, job)| {
            settlement(job, if n % 2 == 0 { Outcome::Done { result: None } } else { retry(None) })
        })
        .collect();
    assert_eq!(h.store.settle(&batch).await.unwrap(), vec![Settled::Accepted; 2_000]);
    assert_eq!(h.count(JobState::Completed).await, 1_000);
    assert_eq!(h.count(JobState::Scheduled).await, 1_000);
}
