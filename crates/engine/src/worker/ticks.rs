//! Ticking: polls tell when the next schedule is due; then the ticker is sent to enqueue its jobs.

use std::time::Instant;

use windlass_core::{StoreError, Time};

use super::dispatch::{Dispatcher, Event, Phase, answered};
use crate::Ticker;

pub(super) struct Ticks {
    /// `None` while it ticks.
    ticker: Option<Ticker>,
    /// When the next schedule is due, by the database's clock.
    next: Option<Time>,
}

impl Ticks {
    pub(super) fn new(ticker: Ticker) -> Ticks {
        Ticks { ticker: Some(ticker), next: None }
    }

    /// A poll answered. One that was asked while a tick was under way tells what was due before that tick.
    pub(super) fn polled(&mut self, next: Option<Time>) {
        if self.ticker.is_some() {
            self.next = next;
        }
    }
}

impl Dispatcher {
    /// When the ticker is sent next: not while a tick is under way, and never once the worker stops.
    pub(super) fn tick_at(&self) -> Option<Instant> {
        if !matches!(self.phase, Phase::Working) {
            return None;
        }
        let patience = self.ticks.ticker.as_ref()?.patience();
        Some(self.polls.instant(self.ticks.next?)? + patience)
    }

    pub(super) fn start_tick(&mut self, now: Instant) {
        if self.tick_at().is_none_or(|at| at > now) {
            return;
        }
        let (Some(time), Some(mut ticker)) = (self.polls.database_time(now), self.ticks.ticker.take()) else {
            return;
        };
        self.ticks.next = None;
        self.spawn(async move {
            let result = answered("tick", ticker.tick(time)).await;
            Event::Ticked { ticker, result }
        });
    }

    pub(super) fn ticked(&mut self, ticker: Ticker, result: Result<Option<Time>, StoreError>, now: Instant) {
        self.ticks.ticker = Some(ticker);
        match result {
            Ok(next) => self.ticks.next = next,
            // The next poll tells what is still due.
            Err(error) => self.store_failed("tick schedules", error, now),
        }
    }
}
