//! The listening socket and its connections.
//!
//! Refuses an address that other machines can reach as long as there are no API keys. Limits connections and slow
//! clients. On a stop it accepts no new connections, lets open requests end, then closes the rest.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_pack::Seat;

use crate::error::ServerError;
use crate::guard;
use crate::interface::Interface;
use crate::options::Options;
use crate::patient::Patient;
use crate::seats::{Seats, Taken};

/// Largest request head.
const HEAD_BYTES: usize = 64 * 1024;
/// Bytes of a response that the kernel may hold. Its own choice is megabytes, which hides for minutes that a client has
/// stopped reading, and which no budget of ours counts.
const KERNEL_BYTES: u32 = 128 * 1024;
/// Connections that the kernel may hold before they are accepted.
const BACKLOG: u32 = 1_024;
/// Pause after a system error such as running out of file handles.
const BREATH: Duration = Duration::from_millis(100);

pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    interface: Interface,
    options: Options,
}

impl Server {
    /// Starts listening. Nothing is answered before [`Server::run`].
    pub async fn bind(options: Options, interface: Interface) -> Result<Server, ServerError> {
        let bind = options.bind;
        if !guard::is_loopback(&bind) {
            return Err(ServerError::Open { bind });
        }
        let listener = listen(bind).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::InUse { bind },
            _ => ServerError::Listen { bind, source },
        })?;
        let address = listener.local_addr().map_err(|source| ServerError::Listen { bind, source })?;
        tracing::debug!(%address, "the interface is open to this machine: there are no API keys");
        Ok(Server { listener, address, interface, options })
    }

    /// With the actual port if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` resolves, then lets open requests end within the grace period.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let seats = Seats::new(self.options.connections);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                _ = &mut shutdown => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(taken) = seats.take(peer.ip()) else {
                        reset(&stream);
                        continue;
                    };
                    let (router, stopped) = (self.interface.router(), self.interface.stopped());
                    let (head_timeout, write_timeout) =
                        (self.options.head_timeout, self.options.write_timeout);
                    connections.spawn(async move {
                        serve(stream, router, taken, (head_timeout, write_timeout), stopped).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    // The usual reason is that no file handle is left.
                    seats.shed();
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
        drop(self.listener);
        self.interface.stop();
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(self.options.grace, ended).await.is_err() {
            tracing::warn!("some requests did not end in time; their connections are closed");
        }
    }
}

fn listen(bind: SocketAddr) -> io::Result<TcpListener> {
    let socket = if bind.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted server may listen while connections of the last one are still closing.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(KERNEL_BYTES)?;
    socket.bind(bind)?;
    socket.listen(BACKLOG)
}

async fn serve(
    stream: TcpStream,
    router: Router,
    taken: Taken,
    (head_timeout, write_timeout): (Duration, Duration),
    mut stop: watch::Receiver<bool>,
) {
    // Responses are small and complete; delaying them would not combine anything.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(HEAD_BYTES);
    let seat = taken.seat.clone();
    let service = Seated { service: TowerToHyperService::new(router), seat: seat.clone() };
    let stream = TokioIo::new(Patient::new(stream, write_timeout, reset));
    let mut connection = pin!(builder.serve_connection(stream, service));
    let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = seat.is_shed() => {
            tracing::debug!(peer = %seat.peer(), "a connection that waited for its client was shed");
            return;
        }
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::debug!(%error, cause, "a connection ended early");
    }
}

/// Tells each request which seat its connection has.
struct Seated {
    service: TowerToHyperService<Router>,
    seat: Arc<Seat>,
}

impl Service<Request<Incoming>> for Seated {
    type Response = Response;
    type Error = Infallible;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.seat.clone());
        self.service.call(request)
    }
}

/// After a normal close, data the client never read would stay in kernel memory for minutes.
fn reset(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        tracing::debug!(%error, "SO_LINGER could not be set");
    }
}
