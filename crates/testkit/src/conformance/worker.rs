//! Workers: register, heartbeat, retire, reclaim.

use std::time::Duration;

use windlass_core::store::{Reclaimed, WorkerInfo};
use windlass_core::{JobState, WorkerId};

use super::Harness;
use super::harness::unexplained;

async fn beats(h: &Harness, worker: WorkerId) -> bool {
    h.store.look().await.unwrap().beats.iter().any(|b| b.worker == worker)
}

pub async fn register_and_list(h: Harness) {
    let before = h.now().await;
    let info = |label: &str, queues, lease| WorkerInfo {
        label: label.to_owned(),
        queues,
        lease: Duration::from_secs(lease),
    };
    let one = h.store.register_worker(&info("host:7", vec![h.queue], 60)).await.unwrap();
    let two = h.store.register_worker(&info("host:7", vec![h.queue, h.other_queue], 90)).await.unwrap();
    assert_ne!(one, two, "the same process name is another incarnation");
    h.put_plain(3).await;
    h.claim(one, 3).await;
    let rows = h.open().await.workers().await.unwrap();
    assert_eq!(rows.len(), 2);
    let row = |id| rows.iter().find(|r| r.id == id).unwrap();
    assert_eq!((row(one).label.as_str(), row(one).queues.clone()), ("host:7", vec![h.queue]));
    assert_eq!(row(two).queues, [h.queue, h.other_queue]);
    assert_eq!((row(one).running, row(two).running), (3, 0));
    assert!(row(one).started_at >= before && row(one).heartbeat_at >= row(one).started_at);
    let beat = h.beat(two).await;
    assert_eq!((beat.lease, beat.expired, beat.stopping), (Duration::from_secs(90), false, false));
}

pub async fn a_heartbeat_extends_the_lease(h: Harness) {
    let (worker, still) = (h.worker().await, h.worker().await);
    let (before, stood) = (h.beat(worker).await, h.beat(still).await);
    h.advance(Duration::from_secs(30));
    for _ in 0..2 {
        assert!(h.store.heartbeat(worker).await.unwrap());
    }
    assert!(h.beat(worker).await.beats >= before.beats + 2, "each beat counts");
    assert_eq!(h.beat(still).await.beats, stood.beats);
    let rows = h.store.workers().await.unwrap();
    let at = |id| rows.iter().find(|r| r.id == id).unwrap().heartbeat_at;
    assert!(at(worker) >= at(still).plus(Duration::from_secs(29)), "{} {}", at(worker), at(still));
}

pub async fn a_heartbeat_of_an_unknown_worker_is_refused(h: Harness) {
    let known = h.worker().await;
    assert!(!h.store.heartbeat(WorkerId(known.0 + 1_000_000)).await.unwrap());
}

pub async fn a_retired_worker_hands_its_jobs_back(h: Harness) {
    let put = h.put_plain(3).await;
    let worker = h.worker().await;
    let leased = h.claim(worker, 2).await;
    h.store.retire_worker(worker).await.unwrap();
    assert!(h.store.workers().await.unwrap().iter().all(|r| r.id != worker));
    assert!(!beats(&h, worker).await);
    assert!(!h.store.heartbeat(worker).await.unwrap());
    for job in &leased {
        let detail = h.detail(job.id).await;
        assert_eq!((detail.job.state, detail.job.attempt), (JobState::Pending, 0));
        assert_eq!(detail.attempts[0].outcome, "handed_back");
    }
    let again = h.claim(h.worker().await, 10).await;
    assert_eq!(again.iter().map(|j| j.id).collect::<Vec<_>>(), put, "in their places, and no suspects");
    assert!(again.iter().all(|j| j.attempt == 1));
}

pub async fn a_reclaimed_worker_is_dead(h: Harness) {
    h.put_plain(2).await;
    let (worker, other) = (h.worker().await, h.worker().await);
    h.claim(worker, 1).await;
    h.claim(other, 1).await;
    h.advance(Duration::from_secs(120));
    let beat = h.beat(worker).await;
    let got = h.store.reclaim(&unexplained(beat)).await.unwrap().unwrap();
    assert_eq!(got, Reclaimed { returned: 1, ..Reclaimed::default() });
    assert!(!h.store.heartbeat(worker).await.unwrap());
    assert!(!beats(&h, worker).await, "a sweeper has nothing more to do with it");
    assert_eq!(h.store.reclaim(&unexplained(beat)).await.unwrap().unwrap_or_default(), Reclaimed::default());
    assert!(h.store.heartbeat(other).await.unwrap(), "the other one lives");
    assert_eq!(h.count(JobState::Running).await, 1);
}

pub async fn an_idle_worker_is_reclaimed_without_jobs(h: Harness) {
    let worker = h.worker().await;
    assert_eq!(h.lose(worker).await, Reclaimed::default());
    assert!(!beats(&h, worker).await);
}

/// Settlements before the worker's death stay.
pub async fn reclaim_takes_only_unsettled_jobs(h: Harness) {
    let put = h.put_plain(5).await;
    let worker = h.worker().await;
    let leased = h.claim(worker, 5).await;
    h.done(&leased[1]).await;
    h.done(&leased[3]).await;
    assert_eq!(h.lose(worker).await, Reclaimed { returned: 3, ..Reclaimed::default() });
    let mut states = Vec::new();
    for id in put {
        states.push(h.state(id).await);
    }
    let (done, back) = (JobState::Completed, JobState::Pending);
    assert_eq!(states, [back, done, back, done, back]);
}

/// The answer of a claim was lost, so the worker lives and does not know its leases.
pub async fn unknown_leases_are_handed_back(h: Harness) {
    let put = h.put_plain(4).await;
    let worker = h.worker().await;
    let known = h.claim(worker, 2).await;
    h.claim(worker, 2).await;
    let tokens: Vec<_> = known.iter().map(|job| job.token).collect();
    assert_eq!(h.store.release_unknown(worker, &tokens).await.unwrap(), 2);
    assert_eq!(h.store.release_unknown(worker, &tokens).await.unwrap(), 0);
    let mut states = Vec::new();
    for id in &put {
        states.push(h.state(*id).await);
    }
    let (kept, back) = (JobState::Running, JobState::Pending);
    assert_eq!(states, [kept, kept, back, back]);
    let detail = h.detail(put[3]).await;
    assert_eq!((detail.job.attempt, detail.attempts[0].outcome.as_str()), (0, "handed_back"));
    h.done(&known[0]).await;
    assert!(h.store.heartbeat(worker).await.unwrap(), "the worker lives on");
}
