//! How the server is bounded.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    /// Loopback only as long as there are no keys.
    pub bind: SocketAddr,
    /// The `application` label of every metric.
    pub application: String,
    /// Largest body of `POST /v1/jobs`.
    pub body_limit: usize,
    /// How long a client may take to send its head, and how long a connection may stand idle: hyper has one clock for both.
    pub head_timeout: Duration,
    /// How long a client may take to send its body.
    pub body_timeout: Duration,
    /// How long a client may take nothing of its answer before it is disconnected. An event stream with nothing to say
    /// does not count.
    pub write_timeout: Duration,
    /// How long open connections may take to end after a stop was asked for.
    pub grace: Duration,
    /// Connections served at once; more wait in the system's backlog.
    pub connections: usize,
    /// Listeners of `/v1/stream` at once.
    pub listeners: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            application: "windlass".to_owned(),
            body_limit: 16 << 20,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
            connections: 1_024,
            listeners: 32,
        }
    }
}
