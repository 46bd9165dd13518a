//! Below which time no schedule is due, as far as this process knows.
//!
//! Every tick leaves a dead entry at the low end of the index; while some other transaction holds a snapshot they stay. As
//! with jobs (`hint.rs`), a look starts above them, and from the bottom once a second, or less often where that takes long:
//! never more than a fiftieth of the time. Only a schedule that is written or resumed can come to stand lower, and that
//! is told to every process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::Time;

use crate::hint::BOTTOM;

const FULL_SCAN: Duration = Duration::from_secs(1);

pub(crate) struct Floor(Mutex<State>);

struct State {
    low: Time,
    full_scan: Instant,
    /// Grows when something may have come to stand lower, so that a look under way does not raise it again.
    forgotten: u64,
}

/// Where a look starts, to be handed back with what it found.
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
            // A poll comes every second; a little less than that lets each be a full one while they are cheap.
            state.full_scan = begun + FULL_SCAN / 2;
        }
        let low = if full { BOTTOM } else { state.low };
        Start { low, begun, full, forgotten: state.forgotten }
    }

    /// `first`: the earliest that was found.
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
    fn a_look_raises_it_and_a_change_takes_it_back() {
        let (low, now) = (Floor::default(), Instant::now());
        let start = low.start(now);
        assert_eq!(start.low, BOTTOM, "the first look is from the bottom");
        low.end(&start, Some(Time(70)), now);
        assert_eq!(low.start(now).low, Time(70));
        let under_way = low.start(now);
        low.forget();
        low.end(&under_way, Some(Time(90)), now);
        assert_eq!(low.start(now).low, BOTTOM, "what the look saw is from before the change");
    }

    #[test]
    fn looks_from_the_bottom_rest_longer_where_they_are_slow() {
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
