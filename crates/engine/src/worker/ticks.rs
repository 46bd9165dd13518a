//! Ticking: the dispatcher knows from its floor query when the next schedule is due, and sends the ticker then.

use std::time::Instant;

use windlass_core::{StoreError, Time};

use super::dispatch::{Dispatcher, Event, Phase, answered};
use crate::Ticker;

impl Dispatcher {
    /// When the ticker goes next, by our own clock; not while it is under way, and never again once the worker stops.
    pub(super) fn tick_at(&self) -> Option<Instant> {
        let (at, instant) = self.clock.filter(|_| matches!(self.phase, Phase::Working))?;
        let patience = self.ticker.as_ref()?.patience();
        Some(instant + self.next_tick?.since(at) + patience)
    }

    pub(super) fn start_tick(&mut self, now: Instant) {
        if self.tick_at().is_none_or(|at| at > now) {
            return;
        }
        let (Some((at, instant)), Some(mut ticker)) = (self.clock, self.ticker.take()) else { return };
        let here = at.plus(now.saturating_duration_since(instant));
        self.next_tick = None;
        let events = self.events.clone();
        tokio::spawn(async move {
            let result = answered("tick", ticker.tick(here)).await;
            let _ = events.send(Event::Ticked { ticker, result });
        });
    }

    pub(super) fn ticked(&mut self, ticker: Ticker, result: Result<Option<Time>, StoreError>) {
        self.ticker = Some(ticker);
        match result {
            Ok(next) => self.next_tick = next,
            // The next poll says what is still due.
            Err(error) => self.troubled("tick schedules", error),
        }
    }
}
