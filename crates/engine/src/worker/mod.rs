//! A worker process: leases jobs, runs them, settles them.
//!
//! One dispatcher task owns all state and makes all decisions. Everything slow (claim, run, settle, poll, tick) happens
//! in tasks that answer it with an event. So there are no locks, and each step can be read by itself.

mod claims;
mod dispatch;
mod drain;
mod group;
mod heart;
mod late;
mod outage;
mod pace;
pub(crate) mod permits;
mod polls;
mod quarantine;
mod report;
mod run;
mod runs;
mod settles;
mod slots;
mod tally;
#[cfg(test)]
mod tests;
mod ticks;
mod tokens;
mod tuning;
mod wake;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_core::input::MAX_BATCH;
use windlass_core::store::{QueueKinds, WorkerInfo};
use windlass_core::{Invalid, KindId, WorkerId};

pub use drain::Drained;
pub(crate) use report::ReportSender;
pub(crate) use tally::SettledInside;

use crate::catalog::KindEntry;
use crate::sweep::Sweeper;
use crate::{Catalog, Client, EngineError, Handler, Handlers};
use dispatch::Dispatcher;

#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Queues to serve; empty means every queue that has a handled kind.
    pub queues: Vec<String>,
    /// How long the process may be silent before others take its jobs.
    pub lease: Duration,
    /// Longest time between two polls for due jobs; wake-ups come sooner.
    pub poll: Duration,
    /// How long running jobs may go on after a shutdown was requested.
    pub grace: Duration,
    /// Most jobs leased ahead per queue while jobs are short.
    pub prefetch: u32,
    /// How long a job on trial has the process to itself.
    pub quarantine: Duration,
    /// Shown to people: `host:pid`.
    pub label: String,
    /// Overrides every queue's concurrency; for benchmarks and tests.
    pub concurrency: Option<u32>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            queues: Vec::new(),
            lease: Duration::from_secs(120),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(30),
            prefetch: 2_000,
            quarantine: windlass_core::sweep::TRIAL_ALONE,
            label: format!("pid {}", std::process::id()),
            concurrency: None,
        }
    }
}

/// A kind this process runs.
pub(crate) struct ServedKind {
    pub(crate) name: String,
    pub(crate) spec: windlass_core::KindSpec,
    pub(crate) handler: Arc<dyn Handler>,
}

/// The kinds this process runs and their queues, by the registry's numbers.
pub(crate) struct Roster {
    pub(crate) kinds: HashMap<KindId, Arc<ServedKind>>,
    pub(crate) queues: Vec<QueueKinds>,
}

impl Roster {
    pub(crate) fn new(client: &Client, handlers: &Handlers, wanted: &[String]) -> Result<Roster, Invalid> {
        handlers.check()?;
        let catalog = client.catalog();
        let mut invalid = Invalid::default();
        let mut only = Vec::new();
        for name in wanted {
            match catalog.queue_named(name) {
                Some(queue) => only.push(queue.id),
                None => {
                    let known = catalog.queue_names().join(", ");
                    invalid.add("queues", format!("`{name}` is not a queue; known: {known}"));
                }
            }
        }
        invalid.into_result()?;
        let mut roster = Roster { kinds: HashMap::new(), queues: Vec::new() };
        for (name, (_, handler)) in &handlers.by_kind {
            let Some(kind) = catalog.kind_named(name) else { continue };
            if !only.is_empty() && !only.contains(&kind.queue) {
                continue;
            }
            // The spec in the registry, not that of the handler: configuration may have changed it.
            let served = ServedKind { name: name.clone(), spec: kind.spec.clone(), handler: handler.clone() };
            roster.add(kind, Arc::new(served));
        }
        roster.sort(&catalog);
        Ok(roster)
    }

    /// The same kinds by the numbers the registry has for them now.
    pub(crate) fn renumbered(&self, client: &Client) -> Roster {
        let catalog = client.catalog();
        let mut roster = Roster { kinds: HashMap::new(), queues: Vec::new() };
        for served in self.kinds.values() {
            if let Some(kind) = catalog.kind_named(&served.name) {
                roster.add(kind, served.clone());
            }
        }
        roster.sort(&catalog);
        roster
    }

    fn add(&mut self, kind: &KindEntry, served: Arc<ServedKind>) {
        self.kinds.insert(kind.id, served);
        match self.queues.iter_mut().find(|served| served.queue == kind.queue) {
            Some(served) => served.kinds.push(kind.id),
            None => self.queues.push(QueueKinds { queue: kind.queue, kinds: vec![kind.id] }),
        }
    }

    /// Most urgent first: queues are claimed from in this order.
    fn sort(&mut self, catalog: &Catalog) {
        for served in &mut self.queues {
            served.kinds.sort_unstable_by_key(|kind| kind.0);
        }
        self.queues.sort_by_key(|served| catalog.queue(served.queue).map(|q| (q.spec.priority, q.id)));
    }

    /// The largest batch any of these kinds takes per call.
    pub(crate) fn batch(&self, kinds: &[KindId]) -> u32 {
        let sizes =
            kinds.iter().filter_map(|kind| self.kinds.get(kind)).map(|served| served.handler.batch_size());
        sizes.max().unwrap_or(1).min(MAX_BATCH) as u32
    }

    pub(crate) fn info(&self, options: &WorkerOptions) -> WorkerInfo {
        WorkerInfo {
            label: options.label.clone(),
            queues: self.queues.iter().map(|served| served.queue).collect(),
            lease: options.lease,
        }
    }
}

pub struct Worker;

impl Worker {
    /// Registers the worker and starts its loops.
    pub async fn start(
        client: Client,
        handlers: &Handlers,
        options: WorkerOptions,
    ) -> Result<WorkerHandle, EngineError> {
        let roster = Roster::new(&client, handlers, &options.queues)?;
        let worker = client.store().register_worker(&roster.info(&options)).await?;
        let (stop, stopped) = watch::channel(false);
        let sweeper = Sweeper::new(client.store().clone(), options.lease);
        let sweep = tokio::spawn(sweeper.run(stopped.clone()));
        let dispatcher = Dispatcher::new(client, roster, options, worker, stopped, Instant::now());
        let running = dispatcher.worker_watch();
        let claims = dispatcher.claim_times();
        let main = tokio::spawn(async move {
            let ended = dispatcher.run().await;
            if let Err(error) = &ended {
                // Logged, because the handle may be asked only at shutdown, or never.
                tracing::error!(%error, "this worker stopped: nothing more is run here until a restart");
            }
            ended
        });
        Ok(WorkerHandle { stop, main, sweep, worker: running, claims })
    }
}

/// A running worker. Dropping it requests a shutdown and does not wait for it.
pub struct WorkerHandle {
    stop: watch::Sender<bool>,
    main: JoinHandle<Result<(), EngineError>>,
    sweep: JoinHandle<()>,
    worker: watch::Receiver<WorkerId>,
    claims: tally::ClaimTimes,
}

impl WorkerHandle {
    /// Changes when the lease was lost and the worker registered again.
    pub fn id(&self) -> WorkerId {
        *self.worker.borrow()
    }

    /// How long the claims since the last call took, oldest first; some thousands at most.
    pub fn take_claim_times(&self) -> Vec<Duration> {
        self.claims.take()
    }

    /// Stops claiming, lets running jobs end within the grace period, and hands the rest back without counting an
    /// attempt.
    pub async fn shutdown(self) -> Result<(), EngineError> {
        let _ = self.stop.send(true);
        self.ended().await
    }

    /// Resolves when the worker stopped by itself, which it does only when the store is broken.
    pub async fn failed(&mut self) -> EngineError {
        match (&mut self.main).await {
            Ok(Err(error)) => error,
            _ => Invalid::one("worker", "stopped unexpectedly").into(),
        }
    }

    async fn ended(self) -> Result<(), EngineError> {
        let result = self.main.await.unwrap_or_else(|_| Err(Invalid::one("worker", "panicked").into()));
        self.sweep.abort();
        result
    }
}

/// How long a future took, from its first poll to its end.
async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let begun = Instant::now();
    let done = work.await;
    (done, begun.elapsed())
}
