//! The HTTP interface of a process that also runs jobs: started before its workers, stopped with them.

use std::net::SocketAddr;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_engine::Client;
use windlass_http::{Interface, Options, Server, ServerError};
use windlass_pack::Assembly;

use super::super::Session;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) struct Site {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Site {
    /// Listens and serves from here on.
    pub(crate) async fn open(
        session: &Session,
        client: Client,
        assembly: &mut Assembly,
    ) -> Result<Site, Failure> {
        let server = &session.config.server;
        let options = Options {
            bind: server.bind,
            public_url: server.public_url.clone(),
            allowed_hosts: server.allowed_hosts.clone(),
            ..Options::default()
        };
        let interface = Interface::new(&options, client, assembly).map_err(refused)?;
        let server = Server::bind(options, interface).await.map_err(refused)?;
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        // A dropped sender also means stop.
        let task = tokio::spawn(async {
            tokio::select! {
                () = server.run(async { drop(stopped.await) }) => {}
                () = crate::memory::give_back() => {}
            }
        });
        Ok(Site { address, stop, task })
    }

    pub(crate) fn announce(&self, output: &Output) -> Result<(), Failure> {
        let address = self.address;
        output.line(format_args!("dashboard and API on http://{address} (open to this machine: no keys)"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets open requests end; refuses new ones at once.
    pub(crate) async fn close(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

fn refused(error: ServerError) -> Failure {
    let why = match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    Failure::new("cannot serve", why).hint(error.remedy())
}
