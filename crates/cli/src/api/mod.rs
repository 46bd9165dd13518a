//! The way of data verbs to the routes: in this process over the database, or on a server that was named.
//!
//! Checks, audit and wording stand in the routes, once. A verb builds a request and shows the answer.

pub(crate) mod answer;
mod console;
mod remote;
pub(crate) mod verbs;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use windlass_http::{Interface, Options};
use windlass_pack::Principal;
use windlass_pack::api::Api;
use windlass_pack::verb::Work;

use crate::commands::Session;
use crate::failure::Failure;
use remote::RemoteApi;
pub(crate) use worker::Visited;

/// The name of this process in the audit.
const ACTOR: &str = "cli";

/// Where a server is, and how to prove who asks.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) server: String,
    pub(crate) token: Option<String>,
}

/// A duration as routes read it, without what people's spelling leaves out.
pub(crate) fn exact(duration: Duration) -> String {
    format!("{}us", duration.as_micros())
}

impl Session {
    /// The routes over a database that is there, or on the server.
    pub(crate) async fn api(&self) -> Result<Arc<dyn Api>, Failure> {
        self.routes(false).await
    }

    /// The same for verbs that bring something: the first of them makes the database.
    pub(crate) async fn creating_api(&self) -> Result<Arc<dyn Api>, Failure> {
        self.routes(true).await
    }

    /// A worker in this process, for verbs that wait for what no server works off.
    pub(crate) fn work(&self) -> Option<Work> {
        let opened = self.visited.get()?.clone();
        Some(Arc::new(move || Box::pin(worker::start(opened.clone()))))
    }

    async fn routes(&self, create: bool) -> Result<Arc<dyn Api>, Failure> {
        if let Some(remote) = &self.remote {
            return Ok(Arc::new(RemoteApi::new(remote)?));
        }
        let client = if create { self.writer().await? } else { self.client().await? };
        let mut assembly = self.assembly()?;
        assembly.visit(client.clone());
        let _ = self.visited.set((client.clone(), Arc::new(assembly.handlers())));
        let interface = Interface::new(&Options::default(), client, &mut assembly)
            .map_err(|error| Failure::new("the routes of this binary do not fit together", error))?;
        Ok(Arc::new(interface.api(Principal::unrestricted(ACTOR))))
    }
}
