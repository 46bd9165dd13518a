//! The time before which no schedule is due, as far as this process knows.
//!
//! Every tick leaves a dead entry at the low end of the index, which stays while another transaction holds a snapshot.
//! As with jobs (`hint.rs`), a query starts above them, and from the bottom once a second, or less often where that
//! takes long: at most a fiftieth of the time. Only a schedule that is written or resumed can become due earlier, and
//! every process is notified of that.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::Time;

use crate::hint::BOTTOM;

const FULL_SCAN: Duration = Duration::from_secs(1);

pub(crate) struct Floor(Mutex<State>);

struct State {
    low: Time,
    full_scan: Instant,
    /// Grows when a schedule may be due earlier, so that a concurrent query does not raise the floor again.
    forgotten: u64,
}

/// Where a query starts; returned with what it found.
pub(crate) struct Start {
    pub(crate) low: Time,
    begun: Instant,
    full: bool,
    forgotten: u64,
}

impl Default for Floor {
    fn default() -> Floor {
        Floor(Mutex::new(State { low: BOTTOM, full_scan: Instant::now(), forgotten: 0 }))
    }
}

impl Floor {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, begun: Instant) -> Start {
        let mut state = self.lock();
        let full = begun >= state.full_scan;
        if full {
            // A little less than the poll interval, so that every poll scans from the bottom while that is cheap.
            state.full_scan = begun + FULL_SCAN / 2;
        }
        let low = if full { BOTTOM } else { state.low };
        Start { low, begun, full, forgotten: state.forgotten }
    }

    /// `first`: the earliest schedule that was found.
    pub(crate) fn end(&self, start: &Start, first: Option<Time>, ended: Instant) {
        let mut state = self.lock();
        if start.full {
            state.full_scan = ended + (FULL_SCAN / 2).max((ended - start.begun) * 50);
        }
        if let Some(first) = first.filter(|_| state.forgotten == start.forgotten) {
            state.low = first;
        }
    }

    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.low = BOTTOM;
        state.forgotten += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_raises_the_floor_and_a_change_resets_it() {
        let (low, now) = (Floor::default(), Instant::now());
        let start = low.start(now);
        assert_eq!(start.low, BOTTOM, "the first query starts at the bottom");
        low.end(&start, Some(Time(70)), now);
        assert_eq!(low.start(now).low, Time(70));
        let under_way = low.start(now);
        low.forget();
        low.end(&under_way, Some(Time(90)), now);
        assert_eq!(low.start(now).low, BOTTOM, "the query began before the change");
    }

    #[test]
    fn slow_scans_from_the_bottom_are_followed_by_longer_pauses() {
        let (low, now) = (Floor::default(), Instant::now());
        for second in 0..3 {
            let now = now + FULL_SCAN * second;
            let start = low.start(now);
            assert_eq!(start.low, BOTTOM, "second {second}");
            low.end(&start, Some(Time(7)), now + Duration::from_millis(1));
            assert_eq!(low.start(now + Duration::from_millis(100)).low, Time(7));
        }
        let late = now + FULL_SCAN * 9;
        let start = low.start(late);
        low.end(&start, Some(Time(7)), late + FULL_SCAN);
        assert_eq!(low.start(late + FULL_SCAN * 40).low, Time(7));
        assert_eq!(low.start(late + FULL_SCAN * 52).low, BOTTOM);
    }
}
