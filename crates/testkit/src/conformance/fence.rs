//! Fencing: every write after a claim carries its token, and a write with a stale token changes nothing.

use std::time::Duration;

use windlass_core::store::{Action, Report, ReportBody, Settled};
use windlass_core::{JobId, JobState, LeasedJob, Outcome, Token, WorkerId};

use super::harness::LEASE;
use super::harness::unexplained;
use super::{Harness, settlement};

/// Every way an attempt can end.
fn verdicts() -> Vec<Outcome> {
    let error = || "late".to_owned();
    vec![
        Outcome::Done { result: Some(b"late".to_vec()) },
        Outcome::Retry { after: None, error: error() },
        Outcome::Retry { after: Some(Duration::ZERO), error: error() },
        Outcome::snooze(Duration::from_secs(1)),
        Outcome::Fail { error: error() },
        Outcome::HandBack,
        Outcome::Cancelled,
    ]
}

async fn picture(h: &Harness, id: JobId) -> String {
    format!("{:?}", h.detail(id).await)
}

/// Tries every fenced write with an old lease and checks after each that the job is unchanged.
async fn every_late_write(h: &Harness, old: &LeasedJob) {
    let before = picture(h, old.id).await;
    for outcome in verdicts() {
        let what = format!("{outcome:?}");
        assert_eq!(h.settle(old, outcome).await, Settled::Stale, "{what}");
        assert_eq!(picture(h, old.id).await, before, "{what}");
    }
    let dead = LeasedJob { max_attempts: 1, ..old.clone() };
    let outcome = Outcome::Retry { after: None, error: "late".to_owned() };
    assert_eq!(h.settle(&dead, outcome).await, Settled::Stale, "dead letter");
    for outcome in verdicts() {
        let what = format!("in a transaction: {outcome:?}");
        let mut tx = h.store.begin().await.unwrap();
        let got = h.store.settle_in(tx.tx(), &settlement(old, outcome)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(got, Settled::Stale, "{what}");
        assert_eq!(picture(h, old.id).await, before, "{what}");
    }
    for body in [
        ReportBody::Progress { percent: 99.0, message: Some("late".to_owned()) },
        ReportBody::Log { line: "late".to_owned() },
    ] {
        let report = Report { id: old.id, token: old.token, attempt: old.attempt, body };
        assert_eq!(h.store.report(std::slice::from_ref(&report)).await.unwrap(), 0, "{report:?}");
        assert_eq!(picture(h, old.id).await, before, "{report:?}");
    }
}

/// Heartbeats and other calls of a worker that was declared dead.
async fn every_late_call(h: &Harness, worker: WorkerId, id: JobId) {
    let before = picture(h, id).await;
    assert!(!h.store.heartbeat(worker).await.unwrap(), "a heartbeat of a dead worker is refused");
    assert!(h.poll(worker).await.cancel.is_empty());
    // Retiring an unknown worker may be an error or not, but it must change nothing.
    let _ = h.store.retire_worker(worker).await;
    assert_eq!(picture(h, id).await, before);
}

async fn lost(h: &Harness) -> (WorkerId, LeasedJob) {
    h.put(h.job()).await;
    let worker = h.worker().await;
    let old = h.claim_one(worker).await;
    h.lose(worker).await;
    (worker, old)
}

pub async fn late_writes_after_reclaim(h: Harness) {
    let (worker, old) = lost(&h).await;
    assert_eq!(h.state(old.id).await, JobState::Pending);
    every_late_write(&h, &old).await;
    every_late_call(&h, worker, old.id).await;
}

pub async fn late_writes_while_another_runs_it(h: Harness) {
    let (worker, old) = lost(&h).await;
    let new = h.claim_suspect(h.worker().await).await.expect("the suspect is there");
    assert_eq!(new.id, old.id);
    every_late_write(&h, &old).await;
    every_late_call(&h, worker, old.id).await;
    h.done(&new).await;
}

pub async fn late_writes_after_another_finished_it(h: Harness) {
    let (worker, old) = lost(&h).await;
    let new = h.claim_suspect(h.worker().await).await.expect("the suspect is there");
    h.settle(&new, Outcome::Done { result: Some(b"right".to_vec()) }).await;
    every_late_write(&h, &old).await;
    every_late_call(&h, worker, old.id).await;
    assert_eq!(h.detail(old.id).await.job.result, Some(b"right".to_vec()));
}

/// The same worker holds the job again; its old lease is still stale.
pub async fn late_writes_of_an_earlier_claim(h: Harness) {
    h.put(h.job()).await;
    let worker = h.worker().await;
    let old = h.claim_one(worker).await;
    h.settle(&old, Outcome::HandBack).await;
    let new = h.claim_one(worker).await;
    assert_eq!((new.id, new.attempt), (old.id, old.attempt));
    every_late_write(&h, &old).await;
    h.done(&new).await;
}

pub async fn late_writes_after_retirement(h: Harness) {
    h.put(h.job()).await;
    let worker = h.worker().await;
    let old = h.claim_one(worker).await;
    h.store.retire_worker(worker).await.unwrap();
    every_late_write(&h, &old).await;
    every_late_call(&h, worker, old.id).await;
}

/// A token of another live claim is refused.
pub async fn another_claims_token(h: Harness) {
    h.put_plain(2).await;
    let worker = h.worker().await;
    let (one, two) = (h.claim_one(worker).await, h.claim_one(worker).await);
    every_late_write(&h, &LeasedJob { token: two.token, ..one.clone() }).await;
    every_late_write(&h, &LeasedJob { token: Token(two.token.0 + 1), ..one.clone() }).await;
    h.done(&one).await;
    h.done(&two).await;
}

pub async fn late_writes_to_a_deleted_job(h: Harness) {
    h.put(h.job()).await;
    let old = h.claim_one(h.worker().await).await;
    h.done(&old).await;
    assert_eq!(h.act(&[old.id], Action::Delete).await.done, 1);
    for outcome in verdicts() {
        assert_eq!(h.settle(&old, outcome).await, Settled::Stale);
    }
    assert!(h.store.job(old.id).await.unwrap().is_none(), "a late write revives nothing");
}

/// The sweeper reclaims a lease while its worker settles it. Exactly one of them wins.
pub async fn rescue_races_completion(h: Harness) {
    const ROUNDS: usize = 60;
    let second = h.open().await;
    let (mut rescued, mut completed) = (0, 0);
    for round in 0..ROUNDS {
        let id = h.put(h.job()).await;
        let worker = h.worker().await;
        let old = h.claim_one(worker).await;
        assert_eq!(old.id, id, "round {round}");
        h.advance(LEASE + Duration::from_secs(1));
        let beat = h.beat(worker).await;
        let done = [settlement(&old, Outcome::Done { result: None })];
        let (settling, sweeping) = (h.store.clone(), second.clone());
        let settling = tokio::spawn(async move { settling.settle(&done).await.unwrap()[0] });
        let sweeping =
            tokio::spawn(async move { sweeping.reclaim(&unexplained(beat)).await.unwrap().unwrap() });
        let (settled, swept) = (settling.await.unwrap(), sweeping.await.unwrap());
        match settled {
            Settled::Accepted => {
                completed += 1;
                assert_eq!(swept.returned, 0, "round {round}: completed and rescued");
                assert_eq!(h.state(id).await, JobState::Completed, "round {round}");
            }
            Settled::Stale => {
                rescued += 1;
                assert_eq!(swept.returned, 1, "round {round}: neither completed nor rescued");
                assert_eq!(h.state(id).await, JobState::Pending, "round {round}");
                let again = h.claim_suspect(h.worker().await).await.expect("the rescued job can run");
                h.done(&again).await;
            }
            other => panic!("round {round}: {other:?}"),
        }
        assert!(
            h.claim_suspect(h.worker().await).await.is_none(),
            "round {round}: a finished job runs again"
        );
    }
    assert_eq!(h.count(JobState::Completed).await, ROUNDS as u64);
    println!("rescued {rescued}, completed {completed}");
}
