//! Background loops of parts, run and stopped by the runtime.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_core::{Store, Time};

/// How long services may take to finish their tick after a stop.
const GRACE: Duration = Duration::from_secs(5);
/// Delay before retrying when the clock cannot be read.
const AGAIN: Duration = Duration::from_secs(1);

/// The kind of process that services run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// `windlass worker`: jobs only.
    Worker,
    /// A program that embeds the library.
    Application,
    /// `windlass serve`.
    Server,
}

/// In which processes a service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// In every process that runs jobs.
    Everywhere,
    /// Where requests are served: a server, or a program that embeds the library.
    Serving,
    /// In servers only.
    ServerOnly,
}

impl Runs {
    pub fn in_process(self, process: Process) -> bool {
        match self {
            Runs::Everywhere => true,
            Runs::Serving => process != Process::Worker,
            Runs::ServerOnly => process == Process::Server,
        }
    }
}

/// A loop, one step at a time.
#[async_trait]
pub trait Service: Send {
    fn name(&self) -> &'static str;

    fn runs(&self) -> Runs {
        Runs::Everywhere
    }

    /// One step; returns the delay until the next.
    async fn tick(&mut self, now: Time) -> Duration;

    /// Waits for the next step. Override it to wake up early.
    async fn rest(&mut self, next: Duration) {
        tokio::time::sleep(next).await;
    }
}

/// Running services. Dropping them aborts them.
pub struct Services {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Services {
    pub fn start(store: Arc<dyn Store>, services: Vec<Box<dyn Service>>) -> Services {
        let (stop, _) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for service in services {
            tasks.spawn(run(service, store.clone(), stop.subscribe()));
        }
        Services { stop, tasks }
    }

    /// Lets running ticks finish; no further one starts.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, ended).await.is_err() {
            tracing::warn!("some services did not end in time; they are aborted");
        }
    }
}

async fn run(mut service: Box<dyn Service>, store: Arc<dyn Store>, mut stop: watch::Receiver<bool>) {
    tracing::debug!(service = service.name(), "started");
    while !*stop.borrow() {
        let next = match store.now().await {
            Ok(now) => service.tick(now).await,
            Err(error) => {
                tracing::debug!(service = service.name(), error = error.chain(), "cannot read the clock");
                AGAIN
            }
        };
        tokio::select! {
            () = service.rest(next) => {}
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
}
