//! Places for event streams.
//!
//! A client that never reads its stream keeps its place until the socket is full, which takes minutes. So one address
//! has at most half of the places, and its next stream ends its oldest. A page that is loaded again always gets a
//! stream, and a browser whose stream was ended connects anew.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub(crate) struct ListenerSeats {
    /// Oldest first.
    taken: Mutex<Vec<Taken>>,
    most: usize,
}

struct Taken {
    peer: Option<IpAddr>,
    end: Arc<Notify>,
}

/// A stream's place until it is dropped.
pub(crate) struct ListenerSeat {
    seats: Arc<ListenerSeats>,
    end: Arc<Notify>,
}

impl ListenerSeats {
    pub(crate) fn new(most: usize) -> ListenerSeats {
        ListenerSeats { taken: Mutex::default(), most }
    }

    /// `None` if other addresses have all places.
    pub(crate) fn take(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<ListenerSeat> {
        let mut taken = self.taken();
        let share = self.most.div_ceil(2);
        let own = taken.iter().filter(|other| other.peer == peer).count();
        if own >= share || (own > 0 && taken.len() >= self.most) {
            let oldest = taken.iter().position(|other| other.peer == peer)?;
            taken.remove(oldest).end.notify_one();
        }
        if taken.len() >= self.most {
            return None;
        }
        let end = Arc::new(Notify::new());
        taken.push(Taken { peer, end: end.clone() });
        Some(ListenerSeat { seats: self.clone(), end })
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListenerSeat {
    /// Resolves when a newer stream has taken the place.
    pub(crate) async fn is_taken(&self) {
        self.end.notified().await;
    }
}

impl Drop for ListenerSeat {
    fn drop(&mut self) {
        self.seats.taken().retain(|taken| !Arc::ptr_eq(&taken.end, &self.end));
    }
}
