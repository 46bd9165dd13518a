//! Running: leased jobs become tasks, and what a task answers becomes settlements. Also aborts runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{JobId, LeasedJob, Outcome, Verdict};

use super::dispatch::{Dispatcher, Event, Run};
use super::group::Lease;
use super::settles::EndedAttempt;
use super::tally::RunStats;
use super::{ServedKind, run, timed};
use crate::handler::{decide, settlement};

impl Dispatcher {
    pub(super) fn start_runs(&mut self, queue: usize, now: Instant) {
        let groups = self.queues[queue].groups.len();
        if self.queues[queue].paused || groups == 0 {
            return;
        }
        // Round robin, so that a group with more leased jobs does not take every slot.
        let (mut group, mut empty) = (self.queues[queue].first % groups, 0);
        while empty < groups && self.queues[queue].running() < self.queues[queue].concurrency {
            empty = if self.start_run(queue, group, now) { 0 } else { empty + 1 };
            group = (group + 1) % groups;
        }
    }

    /// False when the group has nothing to start.
    fn start_run(&mut self, queue: usize, group: usize, now: Instant) -> bool {
        let of = &mut self.queues[queue].groups[group];
        let Some(first) = of.buffer.pop_front() else { return false };
        let Some(served) = self.roster.kinds.get(&first.job.kind).cloned() else {
            // Claims ask only for handled kinds, so the store is wrong here. The job must not be lost for that.
            let back = hand_back(&first.job);
            self.end_attempt(first, Verdict::Return(back), now);
            return true;
        };
        let kind = first.job.kind;
        let mut jobs = vec![first];
        let size = served.handler.batch_size();
        while jobs.len() < size && of.buffer.front().is_some_and(|lease| lease.job.kind == kind) {
            jobs.extend(of.buffer.pop_front());
        }
        of.running += 1;
        let work = &mut self.queues[queue];
        work.observed.busiest = work.observed.busiest.max(work.running());
        self.spawn_run(queue, served, jobs, now);
        true
    }

    fn spawn_run(&mut self, queue: usize, kind: Arc<ServedKind>, jobs: Vec<Lease>, now: Instant) {
        let run = self.next_run;
        self.next_run += 1;
        let leased: Vec<Arc<LeasedJob>> = jobs.iter().map(|lease| lease.job.clone()).collect();
        // Timed inside the task: the handler's own time, without waiting for a thread or for the dispatcher.
        let work = timed(run::run(kind.clone(), leased, self.env.clone()));
        let abort = self.spawn(async move {
            let (outcomes, busy) = work.await;
            Event::Ran { run, outcomes, busy }
        });
        self.runs.insert(run, Run { queue, kind, jobs, started: now, abort });
    }

    pub(super) fn ran(&mut self, run: u64, outcomes: Vec<Outcome>, busy: Duration, now: Instant) {
        // A run may answer just before it is aborted; the abort has settled it.
        let Some(run) = self.runs.remove(&run) else { return };
        let took = now.saturating_duration_since(run.started);
        self.leave(run.queue, &run.jobs, Some((busy, now)));
        self.observe_run(run.queue, run.jobs.len(), took);
        for (lease, outcome) in run.jobs.into_iter().zip(outcomes) {
            let Lease { job, received, permit } = lease;
            let verdict = decide(&job, outcome, &run.kind.spec);
            let ended = job.claimed_at.plus(now.saturating_duration_since(received));
            self.client.meter().ran(job.queue, job.kind, &verdict, took);
            let stats = Some(RunStats::new(&job, ended, took));
            let started = job.claimed_at.plus(run.started.saturating_duration_since(received));
            let settlement = settlement(&job, started, verdict);
            self.settles.push(EndedAttempt { settlement, stats, in_doubt: false, permit });
        }
    }

    /// Frees the slot of a run. `ended` is given when the run ended by itself: only then its time counts for the pace.
    fn leave(&mut self, queue: usize, jobs: &[Lease], ended: Option<(Duration, Instant)>) {
        let Some(kind) = jobs.first().map(|lease| lease.job.kind) else { return };
        let Some(group) = self.queues[queue].group_of(kind) else { return };
        group.running = group.running.saturating_sub(1);
        if let Some((busy, now)) = ended {
            group.pace.finished(jobs.len() as u32, busy, now);
        }
    }

    pub(super) fn end_attempt(&mut self, lease: Lease, verdict: Verdict, now: Instant) {
        let Lease { job, received, permit } = lease;
        let at = job.claimed_at.plus(now.saturating_duration_since(received));
        let settlement = settlement(&job, at, verdict);
        self.settles.push(EndedAttempt { settlement, stats: None, in_doubt: false, permit });
    }

    pub(super) fn cancel(&mut self, id: JobId, now: Instant) {
        let buffers = self.queues.iter_mut().flat_map(|work| &mut work.groups).map(|group| &mut group.buffer);
        let mut waiting = Vec::new();
        for buffer in buffers {
            let place = buffer.iter().position(|lease| lease.job.id == id);
            waiting.extend(place.and_then(|place| buffer.remove(place)));
        }
        for lease in waiting {
            let verdict = decide_unrun(&lease.job, Outcome::Cancelled);
            self.end_attempt(lease, verdict, now);
        }
        let found = self.runs.iter().find(|(_, run)| run.jobs.iter().any(|lease| lease.job.id == id));
        if let Some(run) = found.map(|(run, _)| *run) {
            self.abort(run, now, |job| if job.id == id { Outcome::Cancelled } else { Outcome::HandBack });
        }
    }

    /// Stops a run and settles each of its jobs with what `outcome` says.
    pub(super) fn abort(&mut self, run: u64, now: Instant, outcome: impl Fn(&LeasedJob) -> Outcome) {
        let Some(run) = self.runs.remove(&run) else { return };
        run.abort.abort();
        self.leave(run.queue, &run.jobs, None);
        for lease in run.jobs {
            let verdict = decide_unrun(&lease.job, outcome(&lease.job));
            self.end_attempt(lease, verdict, now);
        }
    }
}

fn decide_unrun(job: &LeasedJob, outcome: Outcome) -> Verdict {
    windlass_core::outcome::decide(job, outcome, &windlass_core::Backoff::default(), 0.0)
}

pub(super) fn hand_back(job: &LeasedJob) -> windlass_core::outcome::Return {
    match decide_unrun(job, Outcome::HandBack) {
        Verdict::Return(back) => back,
        Verdict::End { .. } => unreachable!("a handed-back job never ends"),
    }
}
