//! Running: from the buffer into a task, and from its answer to a settlement; also stopping a run from outside.

use std::sync::Arc;
use std::time::Instant;

use windlass_core::{JobId, LeasedJob, Outcome, Verdict};

use super::Served;
use super::dispatch::{Dispatcher, Ended, Event, Run};
use super::run;
use super::tally::Ran;
use crate::handler::{decide, settlement};

impl Dispatcher {
    pub(super) fn start_runs(&mut self, queue: usize, now: Instant) {
        if self.queues[queue].paused {
            return;
        }
        while !self.queues[queue].buffer.is_empty()
            && self.queues[queue].running < self.queues[queue].concurrency
        {
            let work = &mut self.queues[queue];
            let Some(first) = work.buffer.pop_front() else { return };
            let Some(served) = self.roster.kinds.get(&first.0.kind).cloned() else {
                // A claim asks only for handled kinds, so this is a store's fault; the job must not be lost for it.
                self.end_attempt(&first.0, first.1, Verdict::Return(hand_back(&first.0)), now);
                continue;
            };
            let mut jobs = vec![first];
            let size = served.handler.batch_size();
            while jobs.len() < size && work.buffer.front().is_some_and(|(job, _)| job.kind == jobs[0].0.kind)
            {
                jobs.extend(work.buffer.pop_front());
            }
            work.running += 1;
            self.spawn_run(queue, served, jobs, now);
        }
    }

    fn spawn_run(
        &mut self,
        queue: usize,
        served: Arc<Served>,
        jobs: Vec<(Arc<LeasedJob>, Instant)>,
        now: Instant,
    ) {
        let run = self.next_run;
        self.next_run += 1;
        let leased: Vec<Arc<LeasedJob>> = jobs.iter().map(|(job, _)| job.clone()).collect();
        let events = self.events.clone();
        let work = run::run(served.clone(), leased, self.desk.clone());
        let task = tokio::spawn(async move {
            let outcomes = work.await;
            let _ = events.send(Event::Ran { run, outcomes });
        });
        self.runs.insert(run, Run { queue, served, jobs, started: now, abort: task.abort_handle() });
    }

    pub(super) fn ran(&mut self, run: u64, outcomes: Vec<Outcome>, now: Instant) {
        // An aborted run may have answered just before; whoever removed it has settled it.
        let Some(run) = self.runs.remove(&run) else { return };
        let work = &mut self.queues[run.queue];
        work.running -= 1;
        work.pace.finished(run.jobs.len() as u32, now);
        for ((job, received), outcome) in run.jobs.into_iter().zip(outcomes) {
            let verdict = decide(&job, outcome, &run.served.spec);
            let ended = job.claimed_at.plus(now.saturating_duration_since(received));
            let took = now.saturating_duration_since(run.started);
            self.client.meter().ran(job.queue, job.kind, &verdict, took);
            let ran = Some(Ran::new(&job, ended, took));
            let started = job.claimed_at.plus(run.started.saturating_duration_since(received));
            let settlement = settlement(&job, started, verdict);
            self.unsettled.push_back(Ended { settlement, ran, in_doubt: false });
        }
    }

    pub(super) fn end_attempt(&mut self, job: &LeasedJob, received: Instant, verdict: Verdict, now: Instant) {
        let at = job.claimed_at.plus(now.saturating_duration_since(received));
        let settlement = settlement(job, at, verdict);
        self.unsettled.push_back(Ended { settlement, ran: None, in_doubt: false });
    }

    pub(super) fn cancel(&mut self, id: JobId) {
        let now = Instant::now();
        for queue in 0..self.queues.len() {
            if let Some(place) = self.queues[queue].buffer.iter().position(|(job, _)| job.id == id)
                && let Some((job, received)) = self.queues[queue].buffer.remove(place)
            {
                let verdict = decide_unrun(&job, Outcome::Cancelled);
                self.end_attempt(&job, received, verdict, now);
            }
        }
        let found = self.runs.iter().find(|(_, run)| run.jobs.iter().any(|(job, _)| job.id == id));
        if let Some(run) = found.map(|(run, _)| *run) {
            self.abort(run, now, |job| if job.id == id { Outcome::Cancelled } else { Outcome::HandBack });
        }
    }

    /// Stops a run and writes what `outcome` says for each of its jobs.
    pub(super) fn abort(&mut self, run: u64, now: Instant, outcome: impl Fn(&LeasedJob) -> Outcome) {
        let Some(run) = self.runs.remove(&run) else { return };
        run.abort.abort();
        self.queues[run.queue].running -= 1;
        for (job, received) in run.jobs {
            let verdict = decide_unrun(&job, outcome(&job));
            self.end_attempt(&job, received, verdict, now);
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
