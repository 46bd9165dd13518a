//! Running jobs without loops: everything that is due now, then stop. For tests and one-off commands.

use std::sync::Arc;
use std::time::Instant;

use windlass_core::store::Claim;
use windlass_core::{JobState, Verdict, WorkerId};

use super::report::ReportSender;
use super::{Roster, WorkerOptions, run};
use crate::handler::{decide, settlement};
use crate::{Client, EngineError, Handlers};

/// What a drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    pub completed: u64,
    /// Went back to wait for a retry or the end of a snooze.
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
    /// Runs what is due, and what that enqueues, until nothing is due any more.
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
    let mut drained = Drained::default();
    loop {
        let before = drained.total();
        for served in &roster.queues {
            for suspect in [true, false] {
                let limit = if suspect { 1 } else { BATCH };
                let claim =
                    Claim { worker, queue: served.queue, kinds: served.kinds.clone(), limit, suspect };
                drain_claim(client, roster, &claim, &mut drained).await?;
            }
        }
        if drained.total() == before {
            return Ok(drained);
        }
    }
}

async fn drain_claim(
    client: &Client,
    roster: &Roster,
    claim: &Claim,
    drained: &mut Drained,
) -> Result<(), EngineError> {
    let reports = ReportSender::default();
    for job in client.store().claim(claim).await?.into_iter().map(Arc::new) {
        let Some(served) = roster.kinds.get(&job.kind) else { continue };
        let begun = Instant::now();
        let outcomes = run::run(served.clone(), vec![job.clone()], client.clone(), reports.clone()).await;
        let Some(outcome) = outcomes.into_iter().next() else { continue };
        let verdict = decide(&job, outcome, &served.spec);
        match &verdict {
            Verdict::End { state: JobState::Completed, .. } => drained.completed += 1,
            Verdict::End { .. } => drained.ended += 1,
            Verdict::Return(_) => drained.returned += 1,
        }
        let reports = reports.take();
        if !reports.is_empty() {
            client.store().report(&reports).await?;
        }
        tracing::debug!(job = %job.id, took = ?begun.elapsed(), "drained");
        client.store().settle(&[settlement(&job, job.claimed_at, verdict)]).await?;
        client.finished(job.id);
    }
    Ok(())
}
