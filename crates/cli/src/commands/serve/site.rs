//! The HTTP interface of a process that also works: started before its workers, stopped with them.

use std::net::SocketAddr;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_engine::Client;
use windlass_http::{Options, Server};
use windlass_index::{Entities, Indexing};

use super::super::Session;
use crate::failure::{During, Failure};
use crate::output::Output;

pub(crate) struct Site {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    follow: JoinHandle<()>,
}

impl Site {
    /// Listens and answers from here on.
    pub(crate) async fn open(
        session: &Session,
        client: Client,
        indexing: &Indexing,
    ) -> Result<Site, Failure> {
        let backups = session.config.copies.as_ref().map(|copies| copies.shelf.folder.clone());
        let options = Options { bind: session.config.server.bind, backups, ..Options::default() };
        let entities = Entities::open(client.clone(), indexing, &session.config.types)
            .await
            .during("cannot open the index")?;
        let follow = tokio::spawn(entities.clone().follow());
        let parts = windlass_http::entities::parts(entities, client.clone());
        let server = Server::bind(options, client, parts).await.map_err(|error| {
            let why = match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            };
            Failure::new("cannot serve", why).hint(error.remedy())
        })?;
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        // A sender that is gone means the same: nobody is left who could stop it.
        let task = tokio::spawn(server.run(async { drop(stopped.await) }));
        Ok(Site { address, stop, task, follow })
    }

    pub(crate) fn announce(&self, output: &Output) -> Result<(), Failure> {
        let address = self.address;
        output.line(format_args!("dashboard and API on http://{address} (open to this machine: no keys)"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Open requests may end; new ones are refused at once.
    pub(crate) async fn close(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
        self.follow.abort();
    }
}
