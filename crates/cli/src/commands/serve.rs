//! `serve` and `worker`: run jobs until stopped; `serve` also serves HTTP.
//!
//! Owns signals and the messages at start and stop. The first signal lets running jobs and open requests end within the
//! grace period; the second ends the process at once.

mod site;

use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass_core::duration;
use windlass_engine::{Client, Handlers, Worker, WorkerHandle, WorkerOptions};
use windlass_pack::service::{Process, Services};
use windlass_pack::{Assembly, OpenError};

use super::Session;
use crate::args;
use crate::config::Database;
use crate::failure::{During, Failure};
use crate::serving::Serving;
pub(crate) use site::Site;

pub(crate) async fn serve(session: &Session, args: &args::Running) -> Result<(), Failure> {
    let (client, mut assembly) = open(session, &session.config.database, args.migrate, true).await?;
    // Before the first job is leased, so that a port in use causes no hand-back.
    let site = Site::open(session, client.clone(), &mut assembly).await?;
    let _serving = Serving::begin(&session.config.server.data, &session.config.database.address);
    let crew = Crew::start(session, client, &assembly, Vec::new(), Process::Server).await?.with(site);
    crew.run(session).await
}

pub(crate) async fn work(
    session: &Session,
    args: &args::Running,
    queues: Vec<String>,
) -> Result<(), Failure> {
    // A worker does not create a database: it only runs jobs that others enqueue.
    let (client, assembly) = open(session, &session.config.database, args.migrate, false).await?;
    Crew::start(session, client, &assembly, queues, Process::Worker).await?.run(session).await
}

/// Opens the database and registers everything this process runs.
pub(crate) async fn open(
    session: &Session,
    database: &Database,
    migrate: bool,
    create: bool,
) -> Result<(Client, Assembly), Failure> {
    let config = &session.config;
    let store = session.ready(database, migrate, create).await?;
    let mut assembly = session.assembly()?;
    let kinds = config.kinds.apply(assembly.kinds());
    let client = Client::open(store, &config.queues, &kinds).await.during("cannot start")?;
    client.set_budgets(&config.budgets).await.during("cannot register budgets")?;
    assembly.open(&client).await.map_err(|error| match error {
        OpenError::Engine(error) => {
            Err::<(), _>(error).during("cannot start").err().unwrap_or(Failure::Silent(1))
        }
        part => Failure::new("cannot start", part),
    })?;
    Ok((client, assembly))
}

/// A running worker and what is needed to stop it.
pub(crate) struct Crew {
    client: Client,
    handlers: Handlers,
    queues: Vec<String>,
    worker: WorkerHandle,
    services: Services,
    signals: Signals,
    site: Option<Site>,
    /// The worker ended by itself; nothing is left to stop.
    over: bool,
}

impl Crew {
    pub(crate) async fn start(
        session: &Session,
        client: Client,
        assembly: &Assembly,
        queues: Vec<String>,
        process: Process,
    ) -> Result<Crew, Failure> {
        let handlers = assembly.handlers();
        // Before the first job is leased, so that no signal can end the process without handing jobs back.
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
        let services = assembly.start(client.store().clone(), process);
        Ok(Crew { client, handlers, queues, worker, services, signals, site: None, over: false })
    }

    /// Adds the HTTP interface, which stops with the worker.
    pub(crate) fn with(self, site: Site) -> Crew {
        Crew { site: Some(site), ..self }
    }

    async fn run(self, session: &Session) -> Result<(), Failure> {
        match self.announce(session, &session.config.database) {
            Ok(()) => self.until_stopped(session).await,
            Err(failure) => self.stop_after(failure).await,
        }
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
        if let Some(site) = &self.site {
            site.announce(output)?;
        }
        let grace = duration::format(session.config.server.grace);
        output.line(format_args!(
            "worker {} is ready; stop it with Ctrl-C (running jobs get {grace}; a second Ctrl-C ends at once)",
            self.worker.id()
        ))
    }

    /// Returns an error if the store failed, not after a signal.
    pub(crate) async fn until_stopped(mut self, session: &Session) -> Result<(), Failure> {
        tokio::select! {
            name = self.signals.next() => session.output.note(format_args!("{name}: stopping")),
            error = self.worker.failed() => {
                return Err(error).during("the worker had to stop");
            }
        }
        let (worker, site, services) = (self.worker, self.site, self.services);
        let all = async { tokio::join!(worker.shutdown(), close(site), services.stop()).0 };
        tokio::select! {
            ended = all => {
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
        close(self.site).await;
        self.services.stop().await;
        self.worker.shutdown().await.during("could not stop cleanly")
    }

    /// Hands back leased jobs before reporting the failure, so that others need not wait for the leases to expire.
    pub(crate) async fn stop_after(self, failure: Failure) -> Result<(), Failure> {
        close(self.site).await;
        self.services.stop().await;
        if !self.over
            && let Err(error) = self.worker.shutdown().await
        {
            tracing::warn!(%error, "could not stop cleanly");
        }
        Err(failure)
    }

    /// Resolves when the worker fails or a signal arrives.
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

async fn close(site: Option<Site>) {
    if let Some(site) = site {
        site.close().await;
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

/// `host:pid`, only for display.
fn label() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}:{}", if host.is_empty() { "localhost" } else { host }, std::process::id())
}
