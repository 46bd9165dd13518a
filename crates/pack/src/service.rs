//! Background loops of parts, owned and stopped by the runtime.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_core::{Store, Time};

/// How long services may take to end their tick after a stop.
const GRACE: Duration = Duration::from_secs(5);
/// Until the next try when the clock cannot be read.
const AGAIN: Duration = Duration::from_secs(1);

/// What kind of process the services run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// `windlass worker`: jobs only.
    Worker,
    /// A program with the library inside.
    Application,
    /// `windlass serve`.
    Server,
}

/// In which processes a service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// In every process that runs jobs.
    Everywhere,
    /// Where answers are given: a server, or an application with the library inside.
    WhereAnswersAreGiven,
    /// In servers only.
    ServerOnly,
}

impl Runs {
    pub fn in_process(self, process: Process) -> bool {
        match self {
            Runs::Everywhere => true,
            Runs::WhereAnswersAreGiven => process != Process::Worker,
            Runs::ServerOnly => process == Process::Server,
        }
    }
}

/// A loop in single steps.
#[async_trait]
pub trait Service: Send {
    fn name(&self) -> &'static str;

    fn runs(&self) -> Runs {
        Runs::Everywhere
    }

    /// One round; answers how long until the next.
    async fn tick(&mut self, now: Time) -> Duration;

    /// Waits for the next round. A service that can be woken earlier says so here.
    async fn rest(&mut self, next: Duration) {
        tokio::time::sleep(next).await;
    }
}

/// Running services. Dropped, they are aborted.
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

    /// Ticks under way end; no further one begins.
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
