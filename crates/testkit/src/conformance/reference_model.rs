//! A minimal job system in memory. `model` compares a store with it after each step.
//!
//! It shares only the pure rules of `core` (verdicts, crash policy) with a store.

use std::collections::BTreeMap;

use windlass_core::outcome::{ReturnAt, ReturnWhy, Verdict};
use windlass_core::store::{DeadLetter, Reclaimed, Settled};
use windlass_core::sweep::{Level, Lost, LostLease, Suspicion, lost};
use windlass_core::{JobId, JobState, LeasedJob, OnConflict, Time, WorkerId};

#[derive(Clone, Debug)]
pub(super) struct ModelJob {
    pub at: JobPlace,
    /// Attempts used, including the running one.
    pub attempt: u16,
    pub suspicion: Suspicion,
    pub cancel: bool,
    pub key: Option<String>,
    pub priority: u8,
    pub lane: Option<String>,
    /// Holds a slot of its lane: it runs, or was handed back.
    pub holds: bool,
}

#[derive(Clone, Debug)]
pub(super) enum JobPlace {
    /// Approximate until it is read back from the store.
    Waiting {
        run_at: Time,
    },
    Running {
        lease: LeasedJob,
        worker: WorkerId,
        alone: bool,
    },
    Over(JobState),
}

#[derive(Default)]
pub(super) struct Model {
    pub jobs: BTreeMap<JobId, ModelJob>,
    /// Limit of concurrent jobs in one lane.
    pub at_once: usize,
}

impl ModelJob {
    pub(super) fn state(&self, now: Time) -> JobState {
        match &self.at {
            JobPlace::Waiting { run_at } if *run_at > now => JobState::Scheduled,
            JobPlace::Waiting { .. } => JobState::Pending,
            JobPlace::Running { .. } => JobState::Running,
            JobPlace::Over(state) => *state,
        }
    }

    fn waits(&self) -> bool {
        matches!(self.at, JobPlace::Waiting { .. })
    }
}

impl Model {
    fn duplicate(&self, key: Option<&str>) -> Option<JobId> {
        let key = key?;
        self.jobs.iter().find(|(_, j)| j.waits() && j.key.as_deref() == Some(key)).map(|(id, _)| *id)
    }

    /// The waiting job a new one with `key` would meet.
    pub(super) fn waiting(&self, key: &str) -> Option<JobId> {
        self.duplicate(Some(key))
    }

    /// Adds a job that the store accepted as new. A waiting duplicate must have been replaced.
    pub(super) fn enqueued(&mut self, id: JobId, mut job: ModelJob, policy: Option<OnConflict>) {
        if let Some(duplicate) = self.duplicate(job.key.as_deref()) {
            assert_eq!(
                policy,
                Some(OnConflict::Replace),
                "job {id} was accepted although its duplicate {duplicate} waits"
            );
            let old = self.jobs.get_mut(&duplicate).unwrap();
            if let (JobPlace::Waiting { run_at: old }, JobPlace::Waiting { run_at }) = (&old.at, &mut job.at)
            {
                *run_at = (*run_at).min(*old);
            }
            old.at = JobPlace::Over(JobState::Superseded);
            self.release(duplicate);
        }
        assert!(self.jobs.insert(id, job).is_none(), "job id {id} was given twice");
    }

    /// Frees the slot of the job, if it holds one.
    pub(super) fn release(&mut self, id: JobId) {
        self.jobs.get_mut(&id).unwrap().holds = false;
    }

    /// Due jobs in order: those blocked by their lane if `lined`, else the ready ones.
    fn due(&self, now: Time, level: Level, lined: bool) -> Vec<JobId> {
        let mut due: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, j)| within(level, j.suspicion) && lined == (j.lane.is_some() && !j.holds))
            .filter_map(|(id, j)| match j.at {
                JobPlace::Waiting { run_at } if run_at <= now => Some((j.priority, run_at, *id)),
                _ => None,
            })
            .collect();
        due.sort_unstable();
        due.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Due jobs of a level that are not blocked.
    pub(super) fn suspects(&self, level: Level, now: Time) -> usize {
        self.due(now, level, false).len()
    }

    fn room(&self, lane: &str) -> bool {
        let of_lane = |j: &&ModelJob| j.holds && j.lane.as_deref() == Some(lane);
        self.jobs.values().filter(of_lane).count() < self.at_once
    }

    /// Applies a claim. It must have taken the first ready jobs. It may have taken due blocked jobs for which their
    /// lanes have free slots.
    pub(super) fn took(&mut self, got: &[LeasedJob], worker: WorkerId, level: Level, now: Time) {
        let (ready, lined) = (self.due(now, level, false), self.due(now, level, true));
        let taken: Vec<JobId> = got.iter().map(|job| job.id).filter(|id| !lined.contains(id)).collect();
        assert_eq!(taken, ready[..taken.len().min(ready.len())], "ready jobs");
        for lease in got {
            let job = &self.jobs[&lease.id];
            if let Some(lane) = job.lane.clone().filter(|_| !job.holds) {
                assert!(self.room(&lane), "job {} of lane {lane} is one too many", lease.id);
                self.jobs.get_mut(&lease.id).unwrap().holds = true;
            }
            self.claimed(lease.clone(), worker, level == Level::Trial);
        }
    }

    /// After an empty claim no job is left that it should have taken. A blocked suspect may block other jobs of its
    /// lane.
    pub(super) fn took_all(&self, now: Time) {
        assert_eq!(self.due(now, Level::Ordinary, false), [], "ready jobs");
        let suspects = [self.due(now, Level::Second, true), self.due(now, Level::Trial, true)].concat();
        let lane = |id: &JobId| self.jobs[id].lane.clone().unwrap();
        for id in self.due(now, Level::Ordinary, true) {
            let held_up = suspects.iter().any(|suspect| lane(suspect) == lane(&id));
            assert!(held_up || !self.room(&lane(&id)), "job {id} is blocked although a slot is free");
        }
    }

    pub(super) fn claimed(&mut self, lease: LeasedJob, worker: WorkerId, alone: bool) {
        let job = self.jobs.get_mut(&lease.id).unwrap();
        job.attempt += 1;
        assert_eq!(lease.attempt, job.attempt, "the attempt of job {}", lease.id);
        assert_eq!(lease.suspicion, job.suspicion, "the suspicion of job {}", lease.id);
        job.at = JobPlace::Running { lease, worker, alone };
    }

    /// Returns a job to its queue, or ends it as superseded if a duplicate waits.
    fn back(&mut self, id: JobId, attempt: u16, run_at: Time, why: ReturnWhy) -> Settled {
        let key = self.jobs[&id].key.clone();
        let duplicate = self.duplicate(key.as_deref());
        let job = self.jobs.get_mut(&id).unwrap();
        let settled = if job.cancel {
            job.at = JobPlace::Over(JobState::Cancelled);
            Settled::Cancelled
        } else if duplicate.is_some() {
            job.at = JobPlace::Over(JobState::Superseded);
            Settled::Superseded
        } else {
            job.attempt = attempt;
            job.at = JobPlace::Waiting { run_at };
            Settled::Accepted
        };
        if settled != Settled::Accepted || !why.keeps_slot() {
            self.release(id);
        }
        settled
    }

    pub(super) fn settled(&mut self, id: JobId, verdict: &Verdict, now: Time) -> Settled {
        let job = self.jobs.get_mut(&id).unwrap();
        if !matches!(verdict, Verdict::Return(back) if back.why == ReturnWhy::HandBack) {
            job.suspicion = Suspicion::NONE;
        }
        let settled = match verdict {
            Verdict::End { state, .. } => {
                job.at = JobPlace::Over(*state);
                self.release(id);
                Settled::Accepted
            }
            Verdict::Return(back) => {
                let run_at = match back.run_at {
                    ReturnAt::In(delay) => now.plus(delay),
                    ReturnAt::Place(time) => time,
                };
                self.back(id, back.attempts_used, run_at, back.why)
            }
        };
        self.jobs.get_mut(&id).unwrap().cancel = false;
        settled
    }

    pub(super) fn held_by(&self, worker: WorkerId) -> Vec<JobId> {
        let holds = |j: &ModelJob| matches!(j.at, JobPlace::Running { worker: w, .. } if w == worker);
        self.jobs.iter().filter(|(_, j)| holds(j)).map(|(id, _)| *id).collect()
    }

    /// The worker died. The store may return either of two running duplicates, so callers avoid that case.
    pub(super) fn lost(&mut self, worker: WorkerId, now: Time, at: Time) -> Reclaimed {
        let mut got = Reclaimed::default();
        for id in self.held_by(worker) {
            let job = self.jobs.get_mut(&id).unwrap();
            let JobPlace::Running { lease, alone, .. } = job.at.clone() else {
                unreachable!("held_by filters")
            };
            let facts = LostLease {
                job: id,
                suspicion: job.suspicion,
                alone,
                explained: false,
                at_most_once: false,
                cancel_requested: job.cancel,
            };
            match lost(facts) {
                Lost::Cancelled => {
                    job.at = JobPlace::Over(JobState::Cancelled);
                    got.cancelled += 1;
                    self.release(id);
                }
                Lost::DeadLetter { .. } => {
                    job.at = JobPlace::Over(JobState::DeadLetter);
                    let LeasedJob { queue, kind, run_at, .. } = lease;
                    got.dead_letters.push(DeadLetter { id, queue, kind, run_at, ended_at: at });
                    self.release(id);
                }
                Lost::Return { suspicion, delay } => {
                    job.suspicion = suspicion;
                    let run_at = delay.map_or(lease.run_at, |delay| now.plus(delay));
                    let attempts_used = job.attempt - 1;
                    match self.back(id, attempts_used, run_at, ReturnWhy::Lost) {
                        Settled::Accepted => got.returned += 1,
                        Settled::Superseded => got.superseded += 1,
                        other => unreachable!("{other:?}"),
                    }
                }
            }
            self.jobs.get_mut(&id).unwrap().cancel = false;
        }
        got
    }

    pub(super) fn retired(&mut self, worker: WorkerId) {
        for id in self.held_by(worker) {
            let JobPlace::Running { lease, .. } = self.jobs[&id].at.clone() else {
                unreachable!("held_by filters")
            };
            let attempt = self.jobs[&id].attempt - 1;
            self.back(id, attempt, lease.run_at, ReturnWhy::HandBack);
            self.jobs.get_mut(&id).unwrap().cancel = false;
        }
    }

    /// The worker runs two jobs with one key.
    pub(super) fn holds_twins(&self, worker: WorkerId) -> bool {
        let keys: Vec<_> = self.held_by(worker).iter().filter_map(|id| self.jobs[id].key.clone()).collect();
        keys.iter().enumerate().any(|(n, key)| keys[..n].contains(key))
    }

    /// Replays a finished job: true when it waits again, false when a duplicate waits.
    pub(super) fn replayed(&mut self, id: JobId, now: Time) -> bool {
        let job = self.jobs.get_mut(&id).unwrap();
        job.suspicion = Suspicion::NONE;
        self.back(id, 0, now, ReturnWhy::Retry) == Settled::Accepted
    }
}

fn within(level: Level, suspicion: Suspicion) -> bool {
    let (low, high) = level.range();
    (low..=high).contains(&suspicion.level())
}
