//! A job system small enough to be obviously right: what `model` expects a store to show after each step.
//!
//! It shares the pure rules of `core` (verdicts, crash policy) and nothing else with a store.

use std::collections::BTreeMap;

use windlass_core::lane::place;
use windlass_core::outcome::{ReturnAt, ReturnWhy, Verdict};
use windlass_core::store::{DeadLetter, Reclaimed, Settled};
use windlass_core::sweep::{Lost, LostLease, lost};
use windlass_core::{JobId, JobState, LeasedJob, OnConflict, Time, WorkerId};

#[derive(Clone, Debug)]
pub(super) struct Sketch {
    pub at: Place,
    /// Attempts used; while it runs, this one included.
    pub attempt: u16,
    pub max_attempts: u16,
    pub crashes: u16,
    pub suspect: bool,
    pub cancel: bool,
    pub key: Option<String>,
    pub priority: u8,
    pub lane: Option<String>,
    /// Holds a slot of its lane.
    pub head: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Exact once the store was asked, about right before that.
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
    pub jobs: BTreeMap<JobId, Sketch>,
    /// When a slot of a lane got free since the last claim.
    pub freed: BTreeMap<String, Time>,
    /// Jobs of one lane that may be ready or running at once.
    pub at_once: usize,
}

impl Sketch {
    pub(super) fn state(&self, now: Time) -> JobState {
        match &self.at {
            Place::Waiting { run_at } if *run_at > now => JobState::Scheduled,
            Place::Waiting { .. } => JobState::Pending,
            Place::Running { .. } => JobState::Running,
            Place::Over(state) => *state,
        }
    }

    fn waits(&self) -> bool {
        matches!(self.at, Place::Waiting { .. })
    }
}

impl Model {
    fn twin(&self, key: Option<&str>) -> Option<JobId> {
        let key = key?;
        self.jobs.iter().find(|(_, j)| j.waits() && j.key.as_deref() == Some(key)).map(|(id, _)| *id)
    }

    /// The waiting job a new one with `key` would meet.
    pub(super) fn waiting(&self, key: &str) -> Option<JobId> {
        self.twin(Some(key))
    }

    /// Adds a job the store accepted as new; a waiting twin can only be there to be replaced.
    pub(super) fn enqueued(&mut self, id: JobId, mut job: Sketch, policy: Option<OnConflict>, now: Time) {
        if let Some(twin) = self.twin(job.key.as_deref()) {
            assert_eq!(
                policy,
                Some(OnConflict::Replace),
                "job {id} was taken beside its waiting twin {twin}"
            );
            let old = self.jobs.get_mut(&twin).unwrap();
            if let (Place::Waiting { run_at: old }, Place::Waiting { run_at }) = (&old.at, &mut job.at) {
                *run_at = (*run_at).min(*old);
            }
            old.at = Place::Over(JobState::Superseded);
            self.release(twin, now);
        }
        assert!(self.jobs.insert(id, job).is_none(), "job id {id} was given twice");
    }

    /// The job no longer holds a slot, if it held one.
    pub(super) fn release(&mut self, id: JobId, now: Time) {
        let job = self.jobs.get_mut(&id).unwrap();
        if std::mem::take(&mut job.head) {
            self.freed.insert(job.lane.clone().unwrap(), now);
        }
    }

    /// What a claim does first: in each lane those who stand first become heads, as far as there is room.
    fn promote(&mut self, now: Time) {
        let freed = std::mem::take(&mut self.freed);
        let mut line: Vec<_> = self
            .jobs
            .iter()
            .filter_map(|(id, j)| match j.at {
                Place::Waiting { run_at } if run_at <= now && !j.head && j.lane.is_some() => {
                    Some((j.priority, run_at, *id))
                }
                _ => None,
            })
            .collect();
        line.sort_unstable();
        for (_, run_at, id) in line {
            let lane = self.jobs[&id].lane.clone();
            if self.jobs.values().filter(|j| j.head && j.lane == lane).count() < self.at_once {
                let freed_at = lane.and_then(|lane| freed.get(&lane).copied());
                let job = self.jobs.get_mut(&id).unwrap();
                job.head = true;
                job.at = Place::Waiting { run_at: place(run_at, freed_at) };
            }
        }
    }

    /// The jobs a claim must return, in order.
    pub(super) fn due(&mut self, now: Time, suspect: bool, limit: usize) -> Vec<JobId> {
        if !suspect {
            self.promote(now);
        }
        let mut due: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, j)| j.suspect == suspect && (j.head || j.lane.is_none()))
            .filter_map(|(id, j)| match j.at {
                Place::Waiting { run_at } if run_at <= now => Some((j.priority, run_at, *id)),
                _ => None,
            })
            .collect();
        due.sort_unstable();
        due.into_iter().take(limit).map(|(_, _, id)| id).collect()
    }

    pub(super) fn claimed(&mut self, lease: LeasedJob, worker: WorkerId, alone: bool) {
        let job = self.jobs.get_mut(&lease.id).unwrap();
        job.attempt += 1;
        assert_eq!(lease.attempt, job.attempt, "the attempt of job {}", lease.id);
        job.at = Place::Running { lease, worker, alone };
    }

    /// Sends a job back to its queue, or past its twin to its end.
    fn back(&mut self, id: JobId, attempt: u16, run_at: Time, why: ReturnWhy, now: Time) -> Settled {
        let key = self.jobs[&id].key.clone();
        let twin = self.twin(key.as_deref());
        let job = self.jobs.get_mut(&id).unwrap();
        let settled = if job.cancel {
            job.at = Place::Over(JobState::Cancelled);
            Settled::Cancelled
        } else if twin.is_some() {
            job.at = Place::Over(JobState::Superseded);
            Settled::Superseded
        } else {
            job.attempt = attempt;
            job.at = Place::Waiting { run_at };
            Settled::Accepted
        };
        if settled != Settled::Accepted || !why.keeps_slot() {
            self.release(id, now);
        }
        settled
    }

    pub(super) fn settled(&mut self, id: JobId, verdict: &Verdict, now: Time) -> Settled {
        let job = self.jobs.get_mut(&id).unwrap();
        job.suspect = false;
        job.crashes = 0;
        let settled = match verdict {
            Verdict::End { state, .. } => {
                job.at = Place::Over(*state);
                self.release(id, now);
                Settled::Accepted
            }
            Verdict::Return(back) => {
                let run_at = match back.run_at {
                    ReturnAt::In(delay) => now.plus(delay),
                    ReturnAt::Place(time) => time,
                };
                self.back(id, back.attempts_used, run_at, back.why, now)
            }
        };
        self.jobs.get_mut(&id).unwrap().cancel = false;
        settled
    }

    pub(super) fn held_by(&self, worker: WorkerId) -> Vec<JobId> {
        let holds = |j: &Sketch| matches!(j.at, Place::Running { worker: w, .. } if w == worker);
        self.jobs.iter().filter(|(_, j)| holds(j)).map(|(id, _)| *id).collect()
    }

    /// The worker died. Which of two running twins comes back is the store's choice, so the caller avoids those.
    pub(super) fn lost(&mut self, worker: WorkerId, at: Time, now: Time) -> Reclaimed {
        let mut got = Reclaimed::default();
        for id in self.held_by(worker) {
            let job = self.jobs.get_mut(&id).unwrap();
            let Place::Running { lease, alone, .. } = job.at.clone() else { unreachable!("held_by filters") };
            let facts = LostLease {
                attempt: job.attempt,
                max_attempts: job.max_attempts,
                crashes: job.crashes,
                alone,
                cancel_requested: job.cancel,
            };
            match lost(facts) {
                Lost::Cancelled => {
                    job.at = Place::Over(JobState::Cancelled);
                    got.cancelled += 1;
                    self.release(id, now);
                }
                Lost::DeadLetter { .. } => {
                    job.at = Place::Over(JobState::DeadLetter);
                    let LeasedJob { queue, kind, run_at, .. } = lease;
                    got.dead_letters.push(DeadLetter { id, queue, kind, run_at, ended_at: at });
                    self.release(id, now);
                }
                Lost::Suspect { attempts_used, crashes } => {
                    (job.suspect, job.crashes) = (true, crashes);
                    match self.back(id, attempts_used, lease.run_at, ReturnWhy::Lost, now) {
                        Settled::Accepted => got.suspects += 1,
                        Settled::Superseded => got.superseded += 1,
                        other => unreachable!("{other:?}"),
                    }
                }
            }
            self.jobs.get_mut(&id).unwrap().cancel = false;
        }
        got
    }

    pub(super) fn retired(&mut self, worker: WorkerId, now: Time) {
        for id in self.held_by(worker) {
            let Place::Running { lease, .. } = self.jobs[&id].at.clone() else {
                unreachable!("held_by filters")
            };
            let attempt = self.jobs[&id].attempt - 1;
            self.back(id, attempt, lease.run_at, ReturnWhy::HandBack, now);
            self.jobs.get_mut(&id).unwrap().cancel = false;
        }
    }

    /// Two of the worker's runs share a key.
    pub(super) fn holds_twins(&self, worker: WorkerId) -> bool {
        let keys: Vec<_> = self.held_by(worker).iter().filter_map(|id| self.jobs[id].key.clone()).collect();
        keys.iter().enumerate().any(|(n, key)| keys[..n].contains(key))
    }

    /// Replays a finished job: true when it waits again, false when its twin did.
    pub(super) fn replayed(&mut self, id: JobId, now: Time) -> bool {
        let job = self.jobs.get_mut(&id).unwrap();
        (job.suspect, job.crashes) = (false, 0);
        self.back(id, 0, now, ReturnWhy::Retry, now) == Settled::Accepted
    }
}
