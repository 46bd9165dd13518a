//! How many connections there may be, and which one has to go when there are too many.
//!
//! A thousand clients that send half a request must not shut out others. So a new connection always gets in: the one
//! that has waited longest for its client is shed. If all are being served, a few more get seats for health alone.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_pack::Seat;

/// Seats for health while all others are taken.
const RESERVE: usize = 64;

#[derive(Clone)]
pub(crate) struct Seats {
    open: Arc<Mutex<Vec<Arc<Seat>>>>,
    most: usize,
}

/// A connection's seat until it is dropped.
pub(crate) struct Taken {
    pub(crate) seat: Arc<Seat>,
    seats: Seats,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats.open().retain(|open| !Arc::ptr_eq(open, &self.seat));
    }
}

impl Seats {
    pub(crate) fn new(most: usize) -> Seats {
        Seats { open: Arc::default(), most }
    }

    /// `None` if even the reserve is being served.
    pub(crate) fn take(&self, peer: IpAddr) -> Option<Taken> {
        let mut open = self.open();
        let usual = open.iter().filter(|seat| !seat.only_health()).count();
        let full = usual >= self.most && !shed_oldest(&mut open, |seat| !seat.only_health());
        if full && open.len() >= self.most + RESERVE && !shed_oldest(&mut open, Seat::only_health) {
            return None;
        }
        let seat = Arc::new(Seat::new(peer, full));
        open.push(seat.clone());
        Some(Taken { seat, seats: self.clone() })
    }

    /// Frees a seat, for example when the process has no file handle left.
    pub(crate) fn shed(&self) -> bool {
        shed_oldest(&mut self.open(), |_| true)
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the connection that has waited longest for its client.
fn shed_oldest(open: &mut Vec<Arc<Seat>>, among: fn(&Seat) -> bool) -> bool {
    let among = open.iter().enumerate().filter(|(_, seat)| among(seat));
    let waiting = among.filter_map(|(n, seat)| Some((seat.waiting_since()?, n)));
    let Some((_, oldest)) = waiting.min() else { return false };
    open.swap_remove(oldest).shed();
    true
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn the_one_that_waits_longest_is_shed_and_served_ones_stay() {
        let seats = Seats::new(2);
        let (served, waiting) = (seats.take(PEER).unwrap(), seats.take(PEER).unwrap());
        served.seat.is_served();
        let third = seats.take(PEER).unwrap();
        waiting.seat.is_shed().await;
        assert!(!third.seat.only_health());
        third.seat.is_served();
        let reserve: Vec<Taken> = (0..RESERVE).map(|_| seats.take(PEER).unwrap()).collect();
        assert!(reserve.iter().all(|taken| taken.seat.only_health()), "all others are being served");
        reserve[1..].iter().for_each(|taken| taken.seat.is_served());
        let last = seats.take(PEER).unwrap();
        reserve[0].seat.is_shed().await;
        last.seat.is_served();
        assert!(seats.take(PEER).is_none() && !seats.shed());
        drop(served);
        assert!(!seats.take(PEER).unwrap().seat.only_health());
    }
}
