//! Jobs whose worker died: they rise through the levels of suspicion, and only deaths alone on trial end them.

use std::time::Duration;

use windlass_core::store::{Claim, DeadLetter, Reclaimed, Settled};
use windlass_core::sweep::{DEADLY_LEVEL, Death, Level, Suspicion};
use windlass_core::{JobId, JobState, KindSpec, NewJob, Outcome, QueueSpec};

use super::harness::unexplained;
use super::{Harness, KIND, QUEUE};

/// Two jobs whose worker died while it ran both.
async fn two_suspects(h: &Harness) -> Vec<JobId> {
    let ids = h.put_plain(2).await;
    let worker = h.worker().await;
    assert_eq!(h.claim(worker, 2).await.len(), 2);
    assert_eq!(h.lose(worker).await, Reclaimed { returned: 2, ..Reclaimed::default() });
    ids
}

/// One job at this level, due now.
async fn at_level(h: &Harness, level: u8) -> JobId {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    h.claim_one(worker).await;
    h.lose(worker).await;
    for _ in 1..level {
        h.suspect_dies().await;
    }
    h.advance(Duration::from_secs(600));
    id
}

pub async fn the_first_death_costs_neither_time_nor_an_attempt(h: Harness) {
    let ids = two_suspects(&h).await;
    for id in &ids {
        let detail = h.detail(*id).await;
        assert_eq!((detail.job.state, detail.job.attempt), (JobState::Pending, 0));
        assert_eq!(detail.attempts.len(), 1);
        assert_eq!(detail.job.suspicion, Suspicion::new(1));
        assert_eq!(detail.attempts[0].outcome, "lost");
        assert!(detail.attempts[0].ended_at.is_some());
    }
    let plain = h.put(h.job()).await;
    let again = h.claim(h.worker().await, 10).await;
    let got: Vec<_> = again.iter().map(|job| (job.id, job.attempt, job.suspicion.level())).collect();
    assert_eq!(got, [(ids[0], 1, 1), (ids[1], 1, 1), (plain, 1, 0)], "in their places, with other jobs");
    assert_eq!(again[0].token, again[1].token);
    assert_ne!(again[0].token, again[2].token, "one claims row per level");
}

pub async fn the_second_death_delays_and_keeps_it_from_ordinary_claims(h: Harness) {
    let ids = two_suspects(&h).await;
    let worker = h.worker().await;
    assert_eq!(h.claim(worker, 2).await.len(), 2);
    h.lose(worker).await;
    let worker = h.worker().await;
    assert_eq!(h.count(JobState::Scheduled).await, 2, "five seconds and some jitter");
    h.advance(Duration::from_secs(7));
    let plain = h.put(h.job()).await;
    assert_eq!(h.claim(worker, 10).await.iter().map(|job| job.id).collect::<Vec<_>>(), [plain]);
    assert!(h.claim_level(worker, Level::Trial).await.is_empty());
    let one = Claim { level: Level::Second, ..h.ask(worker, 1) };
    assert_eq!(h.store.claim(&one).await.unwrap().len(), 1, "no more than asked for");
    let rest = h.claim_level(worker, Level::Second).await;
    assert_eq!((rest.len(), rest[0].suspicion), (1, Suspicion::new(2)));
    assert!(ids.contains(&rest[0].id));
}

pub async fn a_trial_is_one_job(h: Harness) {
    two_suspects(&h).await;
    for level in [Level::Ordinary, Level::Second] {
        h.advance(Duration::from_secs(10));
        let worker = h.worker().await;
        assert_eq!(h.claim_level(worker, level).await.len(), 2);
        h.lose(worker).await;
    }
    h.advance(Duration::from_secs(600));
    h.put_plain(3).await;
    let (one, two) = (h.worker().await, h.worker().await);
    assert!(h.claim_level(one, Level::Second).await.is_empty());
    let first = h.claim_level(one, Level::Trial).await;
    let second = h.claim_level(two, Level::Trial).await;
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first[0].id, second[0].id);
    assert!(h.claim_level(h.worker().await, Level::Trial).await.is_empty());
    assert_eq!(h.count(JobState::Pending).await, 3, "nothing else was taken");
}

pub async fn a_claim_of_suspects_keeps_to_its_kinds(h: Harness) {
    at_level(&h, 3).await;
    let worker = h.worker().await;
    let other = Claim { level: Level::Trial, kinds: vec![h.second_kind], ..h.ask(worker, 1) };
    assert!(h.store.claim(&other).await.unwrap().is_empty());
    let elsewhere = Claim { level: Level::Trial, queue: h.other_queue, ..h.ask(worker, 1) };
    assert!(h.store.claim(&elsewhere).await.unwrap().is_empty());
}

pub async fn three_deaths_alone_end_as_dead_letter(h: Harness) {
    let put = h.store.enqueue(&[NewJob { max_attempts: 1, ..h.job() }]).await.unwrap();
    let id = put[0].id;
    let worker = h.worker().await;
    h.claim_one(worker).await;
    h.lose(worker).await;
    for death in 2..DEADLY_LEVEL {
        assert_eq!(
            h.suspect_dies().await,
            Reclaimed { returned: 1, ..Reclaimed::default() },
            "death {death}"
        );
    }
    h.advance(Duration::from_secs(600));
    let worker = h.worker().await;
    let last = h.claim_suspect(worker).await.unwrap();
    assert_eq!(last.attempt, 1, "no death counts as an attempt");
    let got = h.lose(worker).await;
    let detail = h.detail(id).await;
    let ended_at = detail.job.finished_at.expect("a dead letter is finished");
    let dead = DeadLetter { id, queue: h.queue, kind: h.kind, run_at: last.run_at, ended_at };
    assert_eq!(got, Reclaimed { dead_letters: vec![dead], ..Reclaimed::default() });
    assert_eq!(detail.job.state, JobState::DeadLetter);
    let error = detail.job.last_error.expect("a dead letter says why");
    assert!(error.contains("died 6 times"), "{error}");
    assert_eq!(detail.attempts.len(), usize::from(DEADLY_LEVEL));
    assert!(h.claim_suspect(h.worker().await).await.is_none());
}

pub async fn a_death_beside_other_jobs_proves_nothing_on_trial(h: Harness) {
    let id = at_level(&h, 5).await;
    let worker = h.worker().await;
    let leased = h.claim_suspect(worker).await.unwrap();
    assert!(h.store.clear_alone(leased.token).await.unwrap());
    assert_eq!(h.lose(worker).await.returned, 1);
    h.advance(Duration::from_secs(600));
    let again = h.claim_suspect(h.worker().await).await.unwrap();
    assert_eq!((again.id, again.suspicion), (id, Suspicion::new(5)));
}

pub async fn an_explained_death_is_not_blamed_on_the_jobs(h: Harness) {
    let id = at_level(&h, 5).await;
    let clean = h.put(h.job()).await;
    let worker = h.worker().await;
    h.claim_suspect(worker).await.unwrap();
    h.claim_one(worker).await;
    let death = Death { explained: true, ..unexplained(h.beat(worker).await) };
    assert_eq!(h.store.reclaim(&death).await.unwrap().unwrap().returned, 2);
    let worker = h.worker().await;
    let first = h.claim_one(worker).await;
    assert_eq!((first.id, first.suspicion), (clean, Suspicion::new(1)));
    h.advance(Duration::from_secs(600));
    let trial = h.claim_level(worker, Level::Trial).await.remove(0);
    assert_eq!((trial.id, trial.suspicion), (id, Suspicion::new(5)));
}

pub async fn a_settle_clears_the_suspicion(h: Harness) {
    let id = at_level(&h, 3).await;
    let worker = h.worker().await;
    let suspect = h.claim_suspect(worker).await.unwrap();
    let again = Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
    assert_eq!(h.settle(&suspect, again).await, Settled::Accepted);
    let leased = h.claim_one(worker).await;
    assert_eq!((leased.id, leased.attempt, leased.suspicion), (id, 2, Suspicion::NONE));
    h.done(&leased).await;
}

/// It did not run to an end, so it may still kill its process. The same for a settlement and for a retired worker.
pub async fn a_suspect_handed_back_keeps_its_level(h: Harness) {
    let id = at_level(&h, 3).await;
    let worker = h.worker().await;
    let suspect = h.claim_suspect(worker).await.unwrap();
    assert_eq!(h.settle(&suspect, Outcome::HandBack).await, Settled::Accepted);
    assert!(h.claim(worker, 10).await.is_empty(), "no ordinary claim takes it");
    let again = h.claim_suspect(worker).await.unwrap();
    assert_eq!((again.id, again.suspicion), (id, Suspicion::new(3)));
    h.store.retire_worker(worker).await.unwrap();
    let worker = h.worker().await;
    assert!(h.claim(worker, 10).await.is_empty(), "nor after its worker retired");
    assert_eq!(h.claim_suspect(worker).await.unwrap().id, id);
}

pub async fn a_suspect_keeps_its_due_time(h: Harness) {
    let put = h.put_plain(2).await;
    let worker = h.worker().await;
    let before: Vec<_> = h.claim(worker, 2).await.iter().map(|j| (j.id, j.run_at)).collect();
    assert_eq!(before.iter().map(|(id, _)| *id).collect::<Vec<_>>(), put);
    h.lose(worker).await;
    let again = h.claim(h.worker().await, 2).await;
    assert_eq!(again.iter().map(|j| (j.id, j.run_at)).collect::<Vec<_>>(), before);
}

pub async fn a_job_that_runs_at_most_once_is_not_run_again(h: Harness) {
    let kind = KindSpec { at_most_once: true, ..KindSpec::new(KIND, QUEUE) };
    h.store.sync_registry(&[QueueSpec::named(QUEUE)], &[kind], None).await.unwrap();
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    h.claim_one(worker).await;
    let death = Death { explained: true, ..unexplained(h.beat(worker).await) };
    assert_eq!(h.store.reclaim(&death).await.unwrap().unwrap().dead_letters.len(), 1);
    let job = h.detail(id).await.job;
    assert_eq!(job.state, JobState::DeadLetter);
    assert!(job.last_error.unwrap().contains("at most once"));
}

/// A sweeper elsewhere sees the announcement.
pub async fn a_stop_is_announced(h: Harness) {
    let worker = h.worker().await;
    assert!(!h.beat(worker).await.stopping);
    h.open().await.announce_stop(worker).await.unwrap();
    assert!(h.beat(worker).await.stopping);
}

pub async fn reclaim_refuses_a_worker_that_beats(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    let seen = h.beat(worker).await;
    assert!(h.store.heartbeat(worker).await.unwrap());
    assert!(h.beat(worker).await.beats > seen.beats);
    assert_eq!(h.store.reclaim(&unexplained(seen)).await.unwrap(), None);
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
        let sweeping = tokio::spawn(async move { sweeping.reclaim(&unexplained(seen)).await.unwrap() });
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
        let death = unexplained(h.beat(worker).await);
        let (one, two) = tokio::join!(h.store.reclaim(&death), second.reclaim(&death));
        let swept = [one.unwrap(), two.unwrap()].map(|r| r.unwrap_or_default().returned);
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
