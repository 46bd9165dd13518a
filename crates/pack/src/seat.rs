//! A connection's seat in the server, and whether it waits for its client.
//!
//! A connection that waits for its client (for a request, for the rest of a body, for the response to be read) may be
//! shed when seats run out. One whose request has arrived is being served and is left alone.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

pub struct Seat {
    peer: IpAddr,
    /// A seat beyond the usual number: it gets health and nothing else.
    only_health: bool,
    /// Since when it waits for its client; `None` while it is served.
    waiting: Mutex<Option<Instant>>,
    shed: Notify,
}

impl Seat {
    pub fn new(peer: IpAddr, only_health: bool) -> Seat {
        Seat { peer, only_health, waiting: Mutex::new(Some(Instant::now())), shed: Notify::new() }
    }

    /// The client's address.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    pub fn only_health(&self) -> bool {
        self.only_health
    }

    pub fn waits(&self) {
        self.set(Some(Instant::now()));
    }

    pub fn is_served(&self) {
        self.set(None);
    }

    pub fn waiting_since(&self) -> Option<Instant> {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks its connection to end.
    pub fn shed(&self) {
        self.shed.notify_one();
    }

    /// Resolves when the connection has to end.
    pub async fn is_shed(&self) {
        self.shed.notified().await;
    }

    fn set(&self, since: Option<Instant>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}
