//! Why the server could not start, or had to stop.

use std::io;
use std::net::SocketAddr;

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("{bind} is reachable from other machines and there are no API keys yet")]
    Open { bind: SocketAddr },

    #[error("{bind} is in use by another process")]
    InUse { bind: SocketAddr },

    #[error("cannot listen on {bind}")]
    Listen { bind: SocketAddr, source: io::Error },

    /// Two parts registered the same route.
    #[error("{method} {path} is served twice")]
    RouteTwice { method: String, path: &'static str },
}

impl ServerError {
    pub fn remedy(&self) -> &'static str {
        match self {
            ServerError::Open { .. } => {
                "bind a loopback address such as 127.0.0.1:8080 and put a proxy that authenticates in front of it"
            }
            ServerError::InUse { .. } => {
                "stop the other process, or choose another port with --bind 127.0.0.1:PORT"
            }
            ServerError::Listen { .. } => {
                "name an address of this machine and a port you may use with --bind"
            }
            ServerError::RouteTwice { .. } => "remove one of the parts that register it",
        }
    }
}
