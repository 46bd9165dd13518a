//! Cancelling: waiting jobs end at once, running jobs are asked to stop, finished jobs are skipped.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Reclaimed, Settled};
use windlass_core::{JobState, LeasedJob, Outcome, WorkerId};

use super::Harness;

const DONE: Bulk = Bulk { done: 1, requested: 0, superseded: 0, skipped: 0 };
const REQUESTED: Bulk = Bulk { done: 0, requested: 1, superseded: 0, skipped: 0 };

async fn asked_to_stop(h: &Harness) -> (WorkerId, LeasedJob) {
    h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    assert_eq!(h.act(&[leased.id], Action::Cancel).await, REQUESTED);
    (worker, leased)
}

pub async fn waiting_jobs_end_at_once(h: Harness) {
    let pending = h.put(h.job()).await;
    let scheduled = h.put(h.delayed(Duration::from_secs(600))).await;
    for id in [pending, scheduled] {
        assert_eq!(h.act(&[id], Action::Cancel).await, DONE);
        let detail = h.detail(id).await;
        assert_eq!(detail.job.state, JobState::Cancelled);
        assert!(detail.job.finished_at.is_some() && !detail.cancel_requested);
    }
    h.advance(Duration::from_secs(700));
    assert!(h.claim(h.worker().await, 10).await.is_empty());
}

pub async fn a_running_job_is_asked_to_stop(h: Harness) {
    let (worker, leased) = asked_to_stop(&h).await;
    let detail = h.detail(leased.id).await;
    assert_eq!((detail.job.state, detail.cancel_requested), (JobState::Running, true));
    assert_eq!(h.poll(worker).await.cancel, [leased.id]);
    assert_eq!(h.open().await.poll(worker, &h.served()).await.unwrap().cancel, [leased.id]);
    let other = h.worker().await;
    assert!(h.poll(other).await.cancel.is_empty(), "another worker is not asked");
}

pub async fn an_obeyed_cancel_ends_cancelled(h: Harness) {
    let (worker, leased) = asked_to_stop(&h).await;
    let settled = h.settle(&leased, Outcome::Cancelled).await;
    assert!(matches!(settled, Settled::Accepted | Settled::Cancelled), "{settled:?}");
    let detail = h.detail(leased.id).await;
    assert_eq!(detail.job.state, JobState::Cancelled);
    assert!(!detail.cancel_requested, "it was answered");
    assert_eq!(detail.attempts[0].outcome, "cancelled");
    assert!(h.poll(worker).await.cancel.is_empty());
}

/// A cancelled job that would return to its queue ends instead.
pub async fn a_returned_job_ends_cancelled(h: Harness) {
    for outcome in [
        Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() },
        Outcome::snooze(Duration::ZERO),
        Outcome::HandBack,
    ] {
        let what = format!("{outcome:?}");
        let (worker, leased) = asked_to_stop(&h).await;
        assert_eq!(h.settle(&leased, outcome).await, Settled::Cancelled, "{what}");
        assert_eq!(h.state(leased.id).await, JobState::Cancelled, "{what}");
        assert!(h.claim(worker, 10).await.is_empty(), "{what}");
        assert!(h.poll(worker).await.cancel.is_empty(), "{what}");
    }
}

pub async fn a_job_that_ends_before_seeing_the_cancel_stays_done(h: Harness) {
    let (_, leased) = asked_to_stop(&h).await;
    let settled = h.settle(&leased, Outcome::Done { result: Some(b"r".to_vec()) }).await;
    assert_eq!(settled, Settled::Accepted);
    let detail = h.detail(leased.id).await;
    assert_eq!((detail.job.state, detail.job.result), (JobState::Completed, Some(b"r".to_vec())));
    assert!(!detail.cancel_requested);
}

pub async fn a_lost_job_ends_cancelled(h: Harness) {
    let (worker, leased) = asked_to_stop(&h).await;
    assert_eq!(h.lose(worker).await, Reclaimed { cancelled: 1, ..Reclaimed::default() });
    assert_eq!(h.state(leased.id).await, JobState::Cancelled);
    assert!(h.claim_suspect(h.worker().await).await.is_none());
}

pub async fn a_job_of_a_retired_worker_ends_cancelled(h: Harness) {
    let (worker, leased) = asked_to_stop(&h).await;
    h.store.retire_worker(worker).await.unwrap();
    assert_eq!(h.state(leased.id).await, JobState::Cancelled);
    assert!(h.claim(h.worker().await, 10).await.is_empty());
}

pub async fn a_finished_job_is_skipped(h: Harness) {
    h.put(h.job()).await;
    let leased = h.claim_one(h.worker().await).await;
    h.done(&leased).await;
    let got = h.act(&[leased.id], Action::Cancel).await;
    assert_eq!(got, Bulk { skipped: 1, ..Bulk::default() });
    assert_eq!(h.state(leased.id).await, JobState::Completed);
}

/// The cancel request belongs to the run that ended.
pub async fn a_replayed_job_is_not_cancelled(h: Harness) {
    let (worker, leased) = asked_to_stop(&h).await;
    h.settle(&leased, Outcome::Cancelled).await;
    assert_eq!(h.act(&[leased.id], Action::Retry).await, DONE);
    let again = h.claim_one(worker).await;
    assert_eq!(again.id, leased.id);
    assert!(h.poll(worker).await.cancel.is_empty());
    assert!(!h.detail(again.id).await.cancel_requested);
    assert_eq!(h.settle(&again, Outcome::HandBack).await, Settled::Accepted);
}

/// The job is either cancelled and never leased, or leased and asked to stop.
pub async fn cancel_races_claim(h: Harness) {
    let second = h.open().await;
    let worker = h.worker().await;
    for round in 0..30 {
        let id = h.put(h.job()).await;
        let (ask, filter) = (h.ask(worker, 1), super::only(id));
        let (claimed, bulk) =
            tokio::join!(second.claim(&ask), h.store.act(&filter, Action::Cancel, 10, None));
        let (claimed, bulk) = (claimed.unwrap(), bulk.unwrap());
        if bulk.done == 1 {
            assert!(claimed.is_empty(), "round {round}: leased and cancelled");
            assert_eq!(h.state(id).await, JobState::Cancelled, "round {round}");
            continue;
        }
        assert_eq!(bulk, REQUESTED, "round {round}");
        assert_eq!(h.poll(worker).await.cancel, [id], "round {round}");
        assert_eq!(h.settle(&claimed[0], Outcome::HandBack).await, Settled::Cancelled, "round {round}");
    }
}
