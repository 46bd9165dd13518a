//! Suspects: a job whose worker died runs alone next time, and only a crash while alone counts as an attempt.

use windlass_core::store::{Claim, DeadLetter, Reclaimed, Settled};
use windlass_core::sweep::MAX_LONE_CRASHES;
use windlass_core::{JobId, JobState, NewJob, Outcome};

use super::Harness;

/// Two jobs whose worker died while it ran both.
async fn two_suspects(h: &Harness) -> Vec<JobId> {
    let ids = h.put_plain(2).await;
    let worker = h.worker().await;
    assert_eq!(h.claim(worker, 2).await.len(), 2);
    assert_eq!(h.lose(worker).await, Reclaimed { suspects: 2, ..Reclaimed::default() });
    ids
}

pub async fn normal_claims_skip_suspects(h: Harness) {
    let suspects = two_suspects(&h).await;
    let plain = h.put(h.job()).await;
    let worker = h.worker().await;
    let got = h.claim(worker, 10).await;
    assert_eq!(got.iter().map(|j| j.id).collect::<Vec<_>>(), [plain]);
    for id in suspects {
        assert_eq!(h.state(id).await, JobState::Pending);
    }
}

pub async fn a_suspect_is_claimed_alone(h: Harness) {
    let suspects = two_suspects(&h).await;
    h.put_plain(3).await;
    let (one, two) = (h.worker().await, h.worker().await);
    let first = h.claim_suspect(one).await.expect("a suspect waits");
    assert!(suspects.contains(&first.id));
    let second = h.claim_suspect(two).await.expect("the other one");
    assert!(suspects.contains(&second.id) && second.id != first.id);
    let none = Claim { suspect: true, ..h.ask(h.worker().await, 10) };
    assert!(h.store.claim(&none).await.unwrap().is_empty(), "no suspect waits, and nothing else is taken");
    assert_eq!(h.count(JobState::Pending).await, 3);
}

pub async fn a_suspect_claim_keeps_to_its_kinds(h: Harness) {
    two_suspects(&h).await;
    let worker = h.worker().await;
    let other = Claim { suspect: true, kinds: vec![h.second_kind], ..h.ask(worker, 1) };
    assert!(h.store.claim(&other).await.unwrap().is_empty());
    let elsewhere = Claim { suspect: true, queue: h.other_queue, ..h.ask(worker, 1) };
    assert!(h.store.claim(&elsewhere).await.unwrap().is_empty());
}

pub async fn a_crash_among_other_jobs_costs_no_attempt(h: Harness) {
    let ids = two_suspects(&h).await;
    for id in ids {
        let detail = h.detail(id).await;
        assert_eq!((detail.job.state, detail.job.attempt), (JobState::Pending, 0));
        assert_eq!(detail.attempts.len(), 1);
        assert_eq!(detail.attempts[0].outcome, "lost");
        assert!(detail.attempts[0].ended_at.is_some());
    }
    let leased = h.claim_suspect(h.worker().await).await.unwrap();
    assert_eq!(leased.attempt, 1, "the lost run was not counted");
}

pub async fn lone_crashes_end_as_dead_letter(h: Harness) {
    let ids = two_suspects(&h).await;
    let first = h.claim_suspect(h.worker().await).await.unwrap();
    h.done(&first).await;
    let id = ids.into_iter().find(|id| *id != first.id).unwrap();
    for crash in 1..=MAX_LONE_CRASHES {
        let worker = h.worker().await;
        let leased = h.claim_suspect(worker).await.expect("still a suspect");
        assert_eq!((leased.id, leased.attempt), (id, crash), "a lone crash counts as an attempt");
        let got = h.lose(worker).await;
        if crash < MAX_LONE_CRASHES {
            assert_eq!(got, Reclaimed { suspects: 1, ..Reclaimed::default() }, "crash {crash}");
        } else {
            let ended_at = h.detail(id).await.job.finished_at.expect("a dead letter is finished");
            let dead = DeadLetter { id, queue: h.queue, kind: h.kind, run_at: leased.run_at, ended_at };
            assert_eq!(got, Reclaimed { dead_letters: vec![dead], ..Reclaimed::default() });
        }
    }
    let detail = h.detail(id).await;
    assert_eq!(detail.job.state, JobState::DeadLetter);
    let error = detail.job.last_error.expect("a dead letter says why");
    assert!(error.contains("died 3 times while running it alone"), "{error}");
    assert!(detail.job.finished_at.is_some());
    assert_eq!(detail.attempts.len(), 1 + usize::from(MAX_LONE_CRASHES));
    assert!(h.claim_suspect(h.worker().await).await.is_none());
}

pub async fn lone_crashes_respect_max_attempts(h: Harness) {
    let put = h.store.enqueue(&vec![NewJob { max_attempts: 1, ..h.job() }; 2]).await.unwrap();
    let worker = h.worker().await;
    h.claim(worker, 2).await;
    h.lose(worker).await;
    let alone = h.worker().await;
    let leased = h.claim_suspect(alone).await.unwrap();
    let got = h.lose(alone).await;
    assert_eq!(got.dead_letters.iter().map(|dead| dead.id).collect::<Vec<_>>(), [leased.id]);
    assert_eq!(h.state(leased.id).await, JobState::DeadLetter);
    let neighbour = put.iter().map(|e| e.id).find(|id| *id != leased.id).unwrap();
    assert_eq!(h.state(neighbour).await, JobState::Pending, "the crash in company took nothing from it");
}

pub async fn a_settled_job_is_no_longer_suspect(h: Harness) {
    two_suspects(&h).await;
    let worker = h.worker().await;
    let suspect = h.claim_suspect(worker).await.unwrap();
    let again = Outcome::Retry { after: Some(std::time::Duration::ZERO), error: "no".to_owned() };
    assert_eq!(h.settle(&suspect, again).await, Settled::Accepted);
    let leased = h.claim_one(worker).await;
    assert_eq!((leased.id, leased.attempt), (suspect.id, 2));
    h.done(&leased).await;
}

/// It did not run to an end, so it may still kill its process. The same for a settlement and for a retired worker.
pub async fn a_suspect_handed_back_stays_suspect(h: Harness) {
    two_suspects(&h).await;
    let worker = h.worker().await;
    let suspect = h.claim_suspect(worker).await.unwrap();
    assert_eq!(h.settle(&suspect, Outcome::HandBack).await, Settled::Accepted);
    assert!(h.claim(worker, 10).await.is_empty(), "no ordinary claim takes it");
    let again = h.claim_suspect(worker).await.unwrap();
    assert_eq!(again.id, suspect.id);
    h.store.retire_worker(worker).await.unwrap();
    let worker = h.worker().await;
    assert!(h.claim(worker, 10).await.is_empty(), "nor after its worker retired");
    assert_eq!(h.claim_suspect(worker).await.unwrap().id, suspect.id);
}

pub async fn a_suspect_keeps_its_due_time(h: Harness) {
    let put = h.put_plain(2).await;
    let worker = h.worker().await;
    let before: Vec<_> = h.claim(worker, 2).await.iter().map(|j| (j.id, j.run_at)).collect();
    assert_eq!(before.iter().map(|(id, _)| *id).collect::<Vec<_>>(), put);
    h.lose(worker).await;
    let worker = h.worker().await;
    for (id, run_at) in before {
        let suspect = h.claim_suspect(worker).await.unwrap();
        assert_eq!((suspect.id, suspect.run_at), (id, run_at));
        h.done(&suspect).await;
    }
}

pub async fn reclaim_refuses_a_worker_that_beats(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let seen = h.beat(worker).await;
    assert!(h.store.heartbeat(worker).await.unwrap());
    assert!(h.beat(worker).await.beats > seen.beats);
    assert_eq!(h.store.reclaim(&seen).await.unwrap(), None);
    assert_eq!(h.state(id).await, JobState::Running);
    assert!(h.store.heartbeat(worker).await.unwrap(), "still alive");
    h.done(&leased).await;
}

/// Either the worker lives with its job, or it is dead without it.
pub async fn reclaim_races_heartbeat(h: Harness) {
    let second = h.open().await;
    for round in 0..30 {
        let id = h.put(h.job()).await;
        let worker = h.worker().await;
        let leased = h.claim_one(worker).await;
        let seen = h.beat(worker).await;
        let (beating, sweeping) = (h.store.clone(), second.clone());
        let beating = tokio::spawn(async move { beating.heartbeat(worker).await.unwrap() });
        let sweeping = tokio::spawn(async move { sweeping.reclaim(&seen).await.unwrap() });
        let (alive, swept) = (beating.await.unwrap(), sweeping.await.unwrap());
        assert_eq!(alive, swept.is_none(), "round {round}: {alive} {swept:?}");
        let settled = h.settle(&leased, Outcome::Done { result: None }).await;
        assert_eq!(settled, if alive { Settled::Accepted } else { Settled::Stale }, "round {round}");
        if !alive {
            let suspect = h.claim_suspect(h.worker().await).await.unwrap();
            assert_eq!(suspect.id, id);
            h.done(&suspect).await;
        }
    }
}

pub async fn two_sweepers_reclaim_a_worker_once(h: Harness) {
    let second = h.open().await;
    for round in 0..20 {
        h.put_plain(2).await;
        let worker = h.worker().await;
        assert_eq!(h.claim(worker, 2).await.len(), 2);
        let beat = h.beat(worker).await;
        let (one, two) = tokio::join!(h.store.reclaim(&beat), second.reclaim(&beat));
        let swept = [one.unwrap(), two.unwrap()].map(|r| r.unwrap_or_default().suspects);
        assert_eq!(swept.iter().sum::<u64>(), 2, "round {round}: {swept:?}");
        let worker = h.worker().await;
        for _ in 0..2 {
            let suspect = h.claim_suspect(worker).await.unwrap();
            assert_eq!(suspect.attempt, 1, "round {round}: one loss, not two");
            h.done(&suspect).await;
        }
        assert!(h.claim_suspect(worker).await.is_none());
    }
}
