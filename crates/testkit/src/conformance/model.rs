//! Random legal operations on a few jobs, compared with a model after each step. Set `WINDLASS_SEED` to the printed
//! seed to repeat a run.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Change, JobFilter, StoreError};
use windlass_core::sweep::{Level, Suspicion};
use windlass_core::{JobId, JobState, NewJob, OnConflict, Outcome, RunAt, Time, Unique, WorkerId};

use super::harness::unexplained;
use super::lane::{check_lanes, limit};
use super::reference_model::{JobPlace, Model, ModelJob};
use super::{Harness, settlement};
use crate::seed::Seed;

const STEPS: usize = 300;
/// A small number, so that jobs interact often.
const JOBS: usize = 12;
/// Limit of concurrent jobs in one lane.
const AT_ONCE: usize = 2;
/// Empty claims after which no job is claimable; more than there are slots.
const IN_VAIN: usize = 5;
/// All delays are multiples of this, and the whole case takes less time. So no job becomes due between two comparisons.
const SPAN: Duration = Duration::from_secs(600);

struct Walk {
    h: Harness,
    seed: Seed,
    model: Model,
    /// Claims many at once.
    busy: WorkerId,
    /// Claims the higher levels of suspicion.
    alone: WorkerId,
}

pub async fn random_operations_agree_with_the_model(h: Harness) {
    let (busy, alone) = (h.worker().await, h.worker().await);
    let model = Model { at_once: AT_ONCE, ..Model::default() };
    limit(&h, AT_ONCE as u16).await;
    let mut walk = Walk { h, seed: Seed::from_environment(), model, busy, alone };
    for step in 0..STEPS {
        let did = walk.step().await;
        // Shown when the case fails.
        println!("step {step}: {did}");
        walk.compare(&format!("step {step}, {did}")).await;
        if step % 10 == 9 {
            check_lanes(&walk.h).await;
        }
    }
}

impl Walk {
    async fn step(&mut self) -> String {
        match self.seed.below(16) {
            0..=2 => self.enqueue().await,
            3..=5 => self.claim().await,
            6 => self.claim_alone().await,
            7..=10 => self.settle().await,
            11 => self.act().await,
            12 => self.change().await,
            13 => self.lose().await,
            14 => self.retire().await,
            _ => {
                self.h.advance(SPAN);
                "advance".to_owned()
            }
        }
    }

    async fn enqueue(&mut self) -> String {
        if self.model.jobs.len() >= JOBS {
            return "enough jobs".to_owned();
        }
        let delay = SPAN * self.seed.below(3) as u32;
        let key = ["a", "b", "c"].get(self.seed.below(5) as usize).map(|k| (*k).to_owned());
        let lane = ["x", "y"].get(self.seed.below(4) as usize).map(|lane| (*lane).to_owned());
        let policies = [OnConflict::Replace, OnConflict::Keep, OnConflict::Reject];
        let on_conflict = *self.seed.pick(&policies).unwrap();
        let job = NewJob {
            priority: 5 * self.seed.below(3) as u8,
            max_attempts: 1 + self.seed.below(4) as u16,
            run_at: if delay.is_zero() { RunAt::Now } else { RunAt::In(delay) },
            unique: key.clone().map(|key| Unique::until_started(key, on_conflict)),
            concurrency_key: lane.clone(),
            ..self.h.job()
        };
        let now = self.h.now().await;
        let sketch = ModelJob {
            at: JobPlace::Waiting { run_at: now.plus(delay) },
            attempt: 0,
            suspicion: Suspicion::NONE,
            cancel: false,
            priority: job.priority,
            key: key.clone(),
            lane: lane.clone(),
            holds: false,
        };
        let duplicate = key.as_deref().and_then(|key| self.model.waiting(key));
        match (duplicate, on_conflict, self.h.store.enqueue(std::slice::from_ref(&job)).await) {
            (Some(duplicate), OnConflict::Keep, got) => {
                let got = got.unwrap()[0];
                assert_eq!((got.id, got.duplicate), (duplicate, true));
            }
            (Some(duplicate), OnConflict::Reject, got) => {
                assert!(
                    matches!(got, Err(StoreError::UniqueRejected { existing, .. }) if existing == duplicate)
                );
            }
            (_, _, got) => {
                let got = got.unwrap()[0];
                assert!(!got.duplicate, "nothing waits under {key:?}");
                self.model.enqueued(got.id, sketch, Some(on_conflict));
            }
        }
        format!("enqueue {key:?} {on_conflict:?} in {lane:?}")
    }

    async fn claim(&mut self) -> String {
        let limit = 1 + self.seed.below(4) as u32;
        let (mut left, mut in_vain) = (limit, 0);
        // A claim may find slots without waiting jobs and return fewer jobs than it could; the next claim continues.
        while left > 0 && in_vain < IN_VAIN {
            let now = self.h.now().await;
            let got = self.h.claim(self.busy, left).await;
            assert!(got.len() <= left as usize, "claim {left}");
            self.model.took(&got, self.busy, Level::Ordinary, now);
            in_vain = if got.is_empty() { in_vain + 1 } else { 0 };
            left -= got.len() as u32;
        }
        if left > 0 {
            self.model.took_all(self.h.now().await);
        }
        format!("claim {limit}")
    }

    async fn claim_alone(&mut self) -> String {
        if !self.model.held_by(self.alone).is_empty() {
            return "already alone".to_owned();
        }
        let now = self.h.now().await;
        let level = if self.seed.below(2) == 0 { Level::Second } else { Level::Trial };
        let got = self.h.claim_level(self.alone, level).await;
        assert!(level == Level::Second || got.len() <= 1, "claim alone");
        assert!(!got.is_empty() || self.model.suspects(level, now) == 0, "a suspect was to be had");
        self.model.took(&got, self.alone, level, now);
        format!("claim {level:?}")
    }

    async fn settle(&mut self) -> String {
        let mut running: Vec<JobId> = self.model.held_by(self.busy);
        running.extend(self.model.held_by(self.alone));
        let Some(id) = self.seed.pick(&running).copied() else { return "nothing runs".to_owned() };
        let job = self.model.jobs[&id].clone();
        let JobPlace::Running { lease, .. } = job.at else { unreachable!("it runs") };
        let delay = SPAN * self.seed.below(3) as u32;
        let outcome = match self.seed.below(8) {
            0..=2 => Outcome::Done { result: None },
            // The result of a failure after a cancel request is not specified.
            3 | 4 if !job.cancel => Outcome::Retry { after: Some(delay), error: "no".to_owned() },
            5 if !job.cancel => Outcome::Fail { error: "no".to_owned() },
            6 => Outcome::HandBack,
            _ => Outcome::snooze(delay),
        };
        let settlement = settlement(&lease, outcome.clone());
        let expected = self.model.settled(id, &settlement.verdict, self.h.now().await);
        let got = if self.seed.below(4) == 0 {
            let mut tx = self.h.store.begin().await.unwrap();
            let got = self.h.store.settle_in(tx.tx(), &settlement).await.unwrap();
            tx.commit().await.unwrap();
            got
        } else {
            self.h.store.settle(&[settlement]).await.unwrap()[0]
        };
        assert_eq!(got, expected, "settle {id} {outcome:?}");
        format!("settle {id} {outcome:?}")
    }

    async fn act(&mut self) -> String {
        let ids: Vec<JobId> = self.model.jobs.keys().copied().collect();
        let Some(id) = self.seed.pick(&ids).copied() else { return "no jobs".to_owned() };
        let now = self.h.now().await;
        let state = self.model.jobs[&id].state(now);
        let action =
            *self.seed.pick(&[Action::Cancel, Action::Retry, Action::Retry, Action::Delete]).unwrap();
        let mut expected = Bulk::default();
        let job = self.model.jobs.get_mut(&id).unwrap();
        match (action, state) {
            (Action::Cancel, JobState::Scheduled | JobState::Pending) => {
                job.at = JobPlace::Over(JobState::Cancelled);
                self.model.release(id);
                expected.done = 1;
            }
            (Action::Cancel, JobState::Running) if job.cancel => return "asked already".to_owned(),
            (Action::Cancel, JobState::Running) => {
                job.cancel = true;
                expected.requested = 1;
            }
            // Retrying a pending job has no effect, and its count is not specified.
            (Action::Retry, JobState::Pending) => return "pending already".to_owned(),
            (Action::Retry, JobState::Scheduled) => {
                job.at = JobPlace::Waiting { run_at: now };
                expected.done = 1;
            }
            (Action::Retry, state) if state.can_replay() => match self.model.replayed(id, now) {
                true => expected.done = 1,
                false => expected.superseded = 1,
            },
            (Action::Delete, state) if state.is_finished() => {
                self.model.jobs.remove(&id);
                expected.done = 1;
            }
            _ => expected.skipped = 1,
        }
        assert_eq!(self.h.act(&[id], action).await, expected, "{action:?} {id} ({state})");
        format!("{action:?} {id} ({state})")
    }

    async fn change(&mut self) -> String {
        let ids: Vec<JobId> = self.model.jobs.keys().copied().collect();
        let Some(id) = self.seed.pick(&ids).copied() else { return "no jobs".to_owned() };
        let now = self.h.now().await;
        let later = now.plus(SPAN);
        let job = self.model.jobs.get_mut(&id).unwrap();
        let waits = matches!(job.at, JobPlace::Waiting { .. });
        if waits {
            job.at = JobPlace::Waiting { run_at: later };
            self.model.release(id);
        }
        let change = Change { priority: None, run_at: Some(later) };
        assert_eq!(self.h.store.change(id, &change, None).await.unwrap(), waits, "change {id}");
        format!("change {id}")
    }

    /// The claim decides whether a crash counts as alone, not the number of jobs, so `busy` may die with several jobs.
    async fn lose(&mut self) -> String {
        let worker = if self.model.held_by(self.alone).is_empty() { self.busy } else { self.alone };
        let held = self.model.held_by(worker).len();
        if worker == self.busy && (held < 2 || self.model.holds_twins(worker)) {
            return "no worker to lose".to_owned();
        }
        self.h.advance(SPAN);
        let beat = self.h.beat(worker).await;
        assert!(beat.expired);
        let now = self.h.now().await;
        let got = self.h.store.reclaim(&unexplained(beat)).await.unwrap().unwrap();
        let at = got.dead_letters.first().map_or(Time(0), |dead| dead.ended_at);
        assert_eq!(got, self.model.lost(worker, now, at), "lose a worker with {held} jobs");
        let fresh = self.h.worker().await;
        if worker == self.busy {
            self.busy = fresh
        } else {
            self.alone = fresh
        }
        format!("lose a worker with {held} jobs")
    }

    async fn retire(&mut self) -> String {
        if self.model.holds_twins(self.busy) {
            return "duplicates".to_owned();
        }
        self.h.store.retire_worker(self.busy).await.unwrap();
        self.model.retired(self.busy);
        self.busy = self.h.worker().await;
        "retire".to_owned()
    }

    /// The store has exactly the jobs of the model, in the same states.
    async fn compare(&mut self, step: &str) {
        let now = self.h.now().await;
        for (id, job) in &mut self.model.jobs {
            let shown = self.h.detail(*id).await;
            assert_eq!(shown.job.state, job.state(now), "{step}: job {id}, {job:?}");
            if !matches!(job.at, JobPlace::Over(_)) {
                assert_eq!(shown.job.attempt, job.attempt, "{step}: attempts of job {id}, {job:?}");
                assert_eq!(shown.cancel_requested, job.cancel, "{step}: job {id}");
            }
            if let JobPlace::Waiting { run_at } = &mut job.at {
                let exact: Time = shown.job.run_at.expect("a waiting job has its time");
                let off = exact.since(*run_at).max(run_at.since(exact));
                // A job that was given a slot has the time of that moment as its due time.
                let handed = job.lane.is_some() && (*run_at..=now).contains(&exact);
                assert!(off < Duration::from_secs(30) || handed, "{step}: job {id} at {exact}, not {run_at}");
                *run_at = exact;
            }
        }
        let total = self.h.store.count(&JobFilter::default()).await.unwrap();
        assert_eq!(total, self.model.jobs.len() as u64, "{step}: jobs in all");
    }
}
