//! How data verbs reach the routes: in this process over the database, or on a server.
//!
//! Validation, audit and error texts are in the routes, once. A verb builds a request and shows the response.

pub(crate) mod answer;
mod console;
mod register;
mod remote;
pub(crate) mod verbs;
mod whom;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use windlass_engine::Client;
use windlass_http::{Interface, Options, Preparation};
use windlass_pack::Principal;
use windlass_pack::api::Api;
use windlass_pack::verb::Work;

use crate::commands::Session;
use crate::failure::{During, Failure};
use register::Known;
use remote::RemoteApi;
pub(crate) use whom::remote;
pub(crate) use worker::Visited;

/// The actor of this process in the audit.
const ACTOR: &str = "cli";

/// A server's address and credentials.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) server: String,
    pub(crate) token: Option<String>,
}

/// A duration in the routes' format, without rounding for display.
pub(crate) fn exact(duration: Duration) -> String {
    format!("{}us", duration.as_micros())
}

impl Session {
    /// The routes over an existing database, or on the server.
    pub(crate) async fn api(&self) -> Result<Arc<dyn Api>, Failure> {
        self.routes(false).await.map(|(api, _)| api)
    }

    /// For verbs that look something up and then change it: it may be configured but not stored yet.
    pub(crate) async fn acting_api(&self) -> Result<Arc<dyn Api>, Failure> {
        let (api, before) = self.routes(false).await?;
        if let Some(prepare) = before {
            prepare().await.map_err(|problem| Failure::new("cannot register budgets", problem.detail()))?;
        }
        Ok(api)
    }

    /// For verbs that add data: the first one creates the database.
    pub(crate) async fn creating_api(&self) -> Result<Arc<dyn Api>, Failure> {
        self.routes(true).await.map(|(api, _)| api)
    }

    /// A worker in this process, for verbs that wait for jobs when no server runs them.
    pub(crate) fn work(&self) -> Option<Work> {
        let opened = self.visited.get()?.clone();
        Some(Arc::new(move || Box::pin(worker::start(opened.clone()))))
    }

    /// With the preparation to run before a local change.
    async fn routes(&self, create: bool) -> Result<(Arc<dyn Api>, Option<Preparation>), Failure> {
        if let Some(remote) = &self.remote {
            return Ok((Arc::new(RemoteApi::new(remote)?), None));
        }
        let store = match create {
            true => self.ready(&self.config.database, false, true).await?,
            false => self.existing().await?,
        };
        let client = Client::open(store, &[], &[]).await.during("cannot read the registry")?;
        let mut assembly = self.assembly()?;
        assembly.visit(client.clone()).map_err(|error| Failure::new("cannot start", error))?;
        let _ = self.visited.set((client.clone(), Arc::new(assembly.handlers())));
        let (queues, budgets) = (self.config.queues.clone(), self.config.budgets.clone());
        let kinds = self.config.kinds.apply(assembly.kinds());
        let before = register::before_changes(Known { client: client.clone(), queues, kinds, budgets });
        let interface = Interface::new(&Options::default(), client, &mut assembly)
            .map_err(|error| Failure::new("the routes of this binary do not fit together", error))?;
        let api = interface.api(Principal::unrestricted(ACTOR)).before_changes(before.clone());
        Ok((Arc::new(api), Some(before)))
    }
}
