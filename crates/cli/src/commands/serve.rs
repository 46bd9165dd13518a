//! `serve` and `worker`: works off jobs until told to stop.
//!
//! Owns signals and the words printed at start and stop. The first signal lets running jobs end within the grace
//! period, the second ends the process at once. Never decides what runs: the engine does.

use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass_core::duration;
use windlass_engine::{Client, Handlers, Worker, WorkerHandle, WorkerOptions};

use super::{Session, carried};
use crate::args;
use crate::config::Database;
use crate::failure::{During, Failure};

pub(crate) async fn run(session: &Session, args: &args::Running, queues: Vec<String>) -> Result<(), Failure> {
    let config = &session.config;
    let store = session.ready(&config.database, args.migrate).await?;
    let handlers = carried(args.allow_abort);
    let kinds = config.kinds.apply(handlers.specs());
    let client = Client::open(store, &config.queues, &kinds).await.during("cannot start")?;
    let crew = Crew::start(session, client, handlers, queues).await?;
    match crew.announce(session, &config.database) {
        Ok(()) => crew.until_stopped(session).await,
        Err(failure) => crew.stop_after(failure).await,
    }
}

/// A running worker with everything needed to stop it.
pub(crate) struct Crew {
    client: Client,
    handlers: Handlers,
    queues: Vec<String>,
    worker: WorkerHandle,
    signals: Signals,
    /// The worker ended by itself; there is nothing left to stop.
    over: bool,
}

impl Crew {
    pub(crate) async fn start(
        session: &Session,
        client: Client,
        handlers: Handlers,
        queues: Vec<String>,
    ) -> Result<Crew, Failure> {
        // Before the first job is leased, so that no signal can end the process without a hand-back.
        let signals = Signals::listen()?;
        let server = &session.config.server;
        let options = WorkerOptions {
            queues: queues.clone(),
            lease: server.lease,
            poll: server.poll,
            grace: server.grace,
            prefetch: server.prefetch,
            quarantine: server.quarantine,
            label: label(),
            ..WorkerOptions::default()
        };
        let worker =
            Worker::start(client.clone(), &handlers, options).await.during("cannot start the worker")?;
        tokio::spawn(session.config.retention.run(client.store().clone()));
        Ok(Crew { client, handlers, queues, worker, signals, over: false })
    }

    fn announce(&self, session: &Session, database: &Database) -> Result<(), Failure> {
        let output = &session.output;
        output.line(format_args!("windlass works on {}", database.address))?;
        let catalog = self.client.catalog();
        let mut served = false;
        for name in catalog.queue_names() {
            let wanted = self.queues.is_empty() || self.queues.iter().any(|q| q.eq_ignore_ascii_case(name));
            let specs = self.handlers.specs();
            let kinds: Vec<&str> =
                specs.iter().filter(|kind| kind.queue == name).map(|kind| kind.name.as_str()).collect();
            if let Some(queue) = catalog.queue_named(name).filter(|_| wanted && !kinds.is_empty()) {
                served = true;
                let at_once = queue.spec.concurrency;
                output.line(format_args!("  {name}: {at_once} at once: {}", kinds.join(", ")))?;
            }
        }
        if !served {
            output.line("  no kind of these queues runs in this binary: nothing will be claimed")?;
        }
        let grace = duration::format(session.config.server.grace);
        output.line(format_args!(
            "worker {} is ready; stop it with Ctrl-C (running jobs get {grace}; a second Ctrl-C ends at once)",
            self.worker.id()
        ))
    }

    /// Ends well after a signal, with an error when the store gave up.
    pub(crate) async fn until_stopped(mut self, session: &Session) -> Result<(), Failure> {
        tokio::select! {
            name = self.signals.next() => session.output.note(format_args!("{name}: stopping")),
            error = self.worker.failed() => {
                return Err(error).during("the worker had to stop");
            }
        }
        tokio::select! {
            ended = self.worker.shutdown() => {
                ended.during("could not stop cleanly")?;
                session.output.line("stopped")
            }
            name = self.signals.next() => {
                session.output.note(format_args!("{name} again: ending at once"));
                Err(Failure::Silent(1))
            }
        }
    }

    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.worker.shutdown().await.during("could not stop cleanly")
    }

    /// Hands back what is leased before the failure is told: others need not wait for the lease to end.
    pub(crate) async fn stop_after(self, failure: Failure) -> Result<(), Failure> {
        if !self.over
            && let Err(error) = self.worker.shutdown().await
        {
            tracing::warn!(%error, "could not stop cleanly");
        }
        Err(failure)
    }

    /// Resolves when the worker cannot go on or somebody wants the process to end.
    pub(crate) async fn disturbed(&mut self) -> Failure {
        tokio::select! {
            name = self.signals.next() => Failure::new("stopped before the end", name),
            error = self.worker.failed() => {
                self.over = true;
                Failure::new("the worker had to stop", error)
            }
        }
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, Failure> {
        let listen = |kind| signal(kind).during("cannot listen for signals");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "asked to end",
        }
    }
}

/// `host:pid`, for people only: no rule looks at it.
fn label() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}:{}", if host.is_empty() { "localhost" } else { host }, std::process::id())
}
