//! Limits and timeouts of the server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    /// Must be loopback as long as there are no API keys.
    pub bind: SocketAddr,
    /// Where people reach the server through a proxy: `https://jobs.example`.
    pub public_url: Option<String>,
    /// Further names that requests may have in `Host`; without a port, any port.
    pub allowed_hosts: Vec<String>,
    /// The `application` label of every metric.
    pub application: String,
    /// Largest body of `POST /v1/jobs`.
    pub body_limit: usize,
    /// Timeout for the request head and for idle connections; hyper has one timer for both.
    pub head_timeout: Duration,
    /// Timeout for the request body.
    pub body_timeout: Duration,
    /// A client that reads nothing of its response for this long is disconnected. An idle event stream does not count.
    pub write_timeout: Duration,
    /// Bytes of large bodies, of all connections together, that handlers work on or that still arrive.
    pub body_bytes: usize,
    /// Bytes of large responses, of all connections together, that clients have not read yet.
    pub answer_bytes: usize,
    /// How long open connections may take to end after a stop.
    pub grace: Duration,
    /// Concurrent connections. For one more, the one that has waited longest for its client is shed.
    pub connections: usize,
    /// Concurrent listeners of `/v1/stream`.
    pub listeners: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            public_url: None,
            allowed_hosts: Vec::new(),
            application: "windlass".to_owned(),
            body_limit: 16 << 20,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            body_bytes: 128 << 20,
            answer_bytes: 256 << 20,
            grace: Duration::from_secs(10),
            connections: 1_024,
            listeners: 32,
        }
    }
}
