//! Running: from the buffer into a task, and from its answer to a settlement; also stopping a run from outside.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{JobId, LeasedJob, Outcome, Verdict};

use super::Served;
use super::dispatch::{Dispatcher, Ended, Event, Run};
use super::group::Held;
use super::run;
use super::tally::Ran;
use crate::handler::{decide, settlement};

impl Dispatcher {
    pub(super) fn start_runs(&mut self, queue: usize, now: Instant) {
        let groups = self.queues[queue].groups.len();
        if self.queues[queue].paused || groups == 0 {
            return;
        }
        // One of each group at a time: what is leased starts, whoever leased more.
        let (mut group, mut empty) = (self.queues[queue].turn % groups, 0);
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
            // A claim asks only for handled kinds, so this is a store's fault; the job must not be lost for it.
            let back = hand_back(&first.job);
            self.end_attempt(first, Verdict::Return(back), now);
            return true;
        };
        let kind = first.job.kind;
        let mut jobs = vec![first];
        let size = served.handler.batch_size();
        while jobs.len() < size && of.buffer.front().is_some_and(|held| held.job.kind == kind) {
            jobs.extend(of.buffer.pop_front());
        }
        of.running += 1;
        let work = &mut self.queues[queue];
        work.watch.busiest = work.watch.busiest.max(work.running());
        self.spawn_run(queue, served, jobs, now);
        true
    }

    fn spawn_run(&mut self, queue: usize, served: Arc<Served>, jobs: Vec<Held>, now: Instant) {
        let run = self.next_run;
        self.next_run += 1;
        let leased: Vec<Arc<LeasedJob>> = jobs.iter().map(|held| held.job.clone()).collect();
        let events = self.events.clone();
        let work = run::run(served.clone(), leased, self.desk.clone());
        let task = tokio::spawn(async move {
            // The handler's own time, without the wait for a thread before it or for the dispatcher after it.
            let begun = Instant::now();
            let outcomes = work.await;
            let _ = events.send(Event::Ran { run, outcomes, busy: begun.elapsed() });
        });
        self.runs.insert(run, Run { queue, served, jobs, started: now, abort: task.abort_handle() });
    }

    pub(super) fn ran(&mut self, run: u64, outcomes: Vec<Outcome>, busy: Duration, now: Instant) {
        // An aborted run may have answered just before; whoever removed it has settled it.
        let Some(run) = self.runs.remove(&run) else { return };
        let took = now.saturating_duration_since(run.started);
        self.leave(run.queue, &run.jobs, Some((busy, now)));
        self.watch_run(run.queue, run.jobs.len(), took);
        for (held, outcome) in run.jobs.into_iter().zip(outcomes) {
            let Held { job, received, permit } = held;
            let verdict = decide(&job, outcome, &run.served.spec);
            let ended = job.claimed_at.plus(now.saturating_duration_since(received));
            self.client.meter().ran(job.queue, job.kind, &verdict, took);
            let ran = Some(Ran::new(&job, ended, took));
            let started = job.claimed_at.plus(run.started.saturating_duration_since(received));
            let settlement = settlement(&job, started, verdict);
            self.unsettled.push_back(Ended { settlement, ran, in_doubt: false, permit });
        }
    }

    /// A run is over; `ended` when it ended by itself, which says something about the pace.
    fn leave(&mut self, queue: usize, jobs: &[Held], ended: Option<(Duration, Instant)>) {
        let Some(kind) = jobs.first().map(|held| held.job.kind) else { return };
        let Some(group) = self.queues[queue].group_of(kind) else { return };
        group.running = group.running.saturating_sub(1);
        if let Some((busy, now)) = ended {
            group.pace.finished(jobs.len() as u32, busy, now);
        }
    }

    pub(super) fn end_attempt(&mut self, held: Held, verdict: Verdict, now: Instant) {
        let Held { job, received, permit } = held;
        let at = job.claimed_at.plus(now.saturating_duration_since(received));
        let settlement = settlement(&job, at, verdict);
        self.unsettled.push_back(Ended { settlement, ran: None, in_doubt: false, permit });
    }

    pub(super) fn cancel(&mut self, id: JobId) {
        let now = Instant::now();
        let buffers = self.queues.iter_mut().flat_map(|work| &mut work.groups).map(|group| &mut group.buffer);
        let mut waiting = Vec::new();
        for buffer in buffers {
            let place = buffer.iter().position(|held| held.job.id == id);
            waiting.extend(place.and_then(|place| buffer.remove(place)));
        }
        for held in waiting {
            let verdict = decide_unrun(&held.job, Outcome::Cancelled);
            self.end_attempt(held, verdict, now);
        }
        let found = self.runs.iter().find(|(_, run)| run.jobs.iter().any(|held| held.job.id == id));
        if let Some(run) = found.map(|(run, _)| *run) {
            self.abort(run, now, |job| if job.id == id { Outcome::Cancelled } else { Outcome::HandBack });
        }
    }

    /// Stops a run and writes what `outcome` says for each of its jobs.
    pub(super) fn abort(&mut self, run: u64, now: Instant, outcome: impl Fn(&LeasedJob) -> Outcome) {
        let Some(run) = self.runs.remove(&run) else { return };
        run.abort.abort();
        self.leave(run.queue, &run.jobs, None);
        for held in run.jobs {
            let verdict = decide_unrun(&held.job, outcome(&held.job));
            self.end_attempt(held, verdict, now);
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
