//! Runs everything that is due now, one job after the other, then stops. For tests and one-off commands.

use std::sync::Arc;

use windlass_core::store::{Claim, Counted, Settled};
use windlass_core::sweep::Level;
use windlass_core::{Settlement, Verdict, WorkerId};

use super::tally::{RunStats, Tally};
use super::{Roster, WorkerOptions, run, timed};
use crate::handler::{RunEnv, decide, settlement};
use crate::{Client, EngineError, Handlers};

/// How many jobs a drain ran, by how their run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    pub completed: u64,
    /// Wait for a retry or for the end of a snooze.
    pub returned: u64,
    /// Failed, dead letters and cancelled.
    pub ended: u64,
}

impl Drained {
    pub fn total(&self) -> u64 {
        self.completed + self.returned + self.ended
    }
}

const BATCH: u32 = 100;

impl Client {
    /// Runs what is due, and what that enqueues, until nothing is due any more. Ignores rates.
    pub async fn drain(&self, handlers: &Handlers) -> Result<Drained, EngineError> {
        let roster = Roster::new(self, handlers, &[])?;
        let options = WorkerOptions::default();
        let worker = self.store().register_worker(&roster.info(&options)).await?;
        let result = drain_as(self, &roster, worker).await;
        self.store().retire_worker(worker).await?;
        result
    }
}

async fn drain_as(client: &Client, roster: &Roster, worker: WorkerId) -> Result<Drained, EngineError> {
    let mut drain = Drain {
        roster,
        env: RunEnv::new(client.clone()),
        drained: Drained::default(),
        tally: Tally::default(),
    };
    loop {
        let before = drain.drained.total();
        for served in &roster.queues {
            for level in [Level::Trial, Level::Second, Level::Ordinary] {
                let limit = if level == Level::Ordinary { BATCH } else { 1 };
                let claim = Claim { worker, queue: served.queue, kinds: served.kinds.clone(), limit, level };
                drain.claim(&claim).await?;
            }
        }
        if drain.drained.total() == before {
            client.store().record(&drain.tally.take()).await?;
            return Ok(drain.drained);
        }
    }
}

struct Drain<'a> {
    roster: &'a Roster,
    env: RunEnv,
    drained: Drained,
    tally: Tally,
}

impl Drain<'_> {
    async fn claim(&mut self, claim: &Claim) -> Result<(), EngineError> {
        let client = self.env.client.clone();
        for job in client.store().claim(claim).await?.into_iter().map(Arc::new) {
            let Some(served) = self.roster.kinds.get(&job.kind) else { continue };
            let running = run::run(served.clone(), vec![job.clone()], self.env.clone());
            let (outcomes, took) = timed(running).await;
            let Some(outcome) = outcomes.into_iter().next() else { continue };
            let stats = RunStats::new(&job, job.claimed_at.plus(took), took);
            let settlement = settlement(&job, job.claimed_at, decide(&job, outcome, &served.spec));
            let reports = self.env.reports.take();
            if !reports.is_empty() {
                client.store().report(&reports).await?;
            }
            let answers = client.store().settle(std::slice::from_ref(&settlement)).await?;
            self.count(&settlement, &stats, answers.first().copied().unwrap_or(Settled::Stale));
            client.finished(job.id);
        }
        Ok(())
    }

    /// By the store's answer; stale is the answer for a job whose handler completed it.
    fn count(&mut self, settlement: &Settlement, stats: &RunStats, answer: Settled) {
        let inside = !self.env.inside.take(std::iter::once(settlement)).is_empty();
        let counted = match answer {
            Settled::Stale if inside => Some(Counted::Completed),
            answer => Counted::of(&settlement.verdict, answer),
        };
        if let Some(counted) = counted {
            self.tally.count(settlement.queue, stats, counted);
        }
        match (answer, &settlement.verdict) {
            (Settled::Stale, _) if !inside => {}
            _ if counted == Some(Counted::Completed) => self.drained.completed += 1,
            (Settled::Accepted, Verdict::Return(_)) => self.drained.returned += 1,
            _ => self.drained.ended += 1,
        }
    }
}
