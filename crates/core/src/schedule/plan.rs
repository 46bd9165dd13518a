//! A validated schedule: its next tick, and the ticks that are due.
//!
//! Decides what is late, what is missed and what is caught up. The store ensures that only one caller advances the last
//! tick.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::spec::Misfire;
use super::{Calendar, Phase, Timing, Zone};
use crate::Time;

/// A tick at most this late is always on time: the ticker runs about once a second.
const PROMPT: Duration = Duration::from_secs(2);
/// The latest tick is on time for this long.
const GRACE: Duration = Duration::from_secs(60);
/// Missed ticks are not counted beyond this.
pub const MAX_COUNTED: u64 = 100_000;
/// Calendar phases to search for a tick: years of daily ones.
const MAX_STRETCHES: usize = 5_000;

/// One expression with its zone, and the calendar phases it is restricted to.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) timing: Timing,
    pub(super) zone: Zone,
    pub(super) anchor: Time,
    pub(super) within: Option<(Arc<Calendar>, Vec<Phase>)>,
}

#[derive(Clone, Debug)]
pub struct Plan {
    rules: Vec<Rule>,
    misfire: Misfire,
    catch_up: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// To enqueue, earliest first.
    pub ticks: Vec<Time>,
    /// Not enqueued, counted up to [`MAX_COUNTED`].
    pub missed: u64,
    /// The latest tick that has passed; the new last tick. `None` if there was none.
    pub last: Option<Time>,
}

impl Rule {
    /// The first tick strictly after `after`.
    pub(super) fn next(&self, after: Time) -> Option<Time> {
        let mut after = after;
        for _ in 0..MAX_STRETCHES {
            let tick = self.timing.next(after, &self.zone, self.anchor)?;
            let Some((calendar, phases)) = &self.within else { return Some(tick) };
            if phases.contains(&calendar.phase(tick)) {
                return Some(tick);
            }
            // A tick exactly at the start of the next phase counts.
            after = Time(calendar.phase_end(tick)?.0 - 1);
        }
        None
    }
}

impl Plan {
    pub(super) fn new(rules: Vec<Rule>, misfire: Misfire, catch_up: u32) -> Plan {
        Plan { rules, misfire, catch_up: catch_up as usize }
    }

    /// The first tick strictly after `after`.
    pub fn next(&self, after: Time) -> Option<Time> {
        self.rules.iter().filter_map(|rule| rule.next(after)).min()
    }

    /// The zone of the rule that ticks at `tick`, else of the first rule.
    pub fn zone_at(&self, tick: Time) -> Zone {
        let ticks = |rule: &&Rule| rule.next(Time(tick.0 - 1)) == Some(tick);
        let rule = self.rules.iter().find(ticks).or(self.rules.first());
        rule.map_or(Zone::UTC, |rule| rule.zone.clone())
    }

    /// What to do about the ticks after `last_tick` up to and including `now`.
    pub fn due(&self, last_tick: Time, now: Time) -> Due {
        let (passed, recent) = self.passed(last_tick, now);
        let Some(&last) = recent.last() else { return Due::default() };
        let late = |tick: &Time| now.since(*tick);
        let on_time = |tick: &&Time| late(tick) <= PROMPT || (**tick == last && late(tick) <= GRACE);
        let mut ticks: Vec<Time> = match self.misfire {
            Misfire::All => recent,
            Misfire::Skip | Misfire::Once => recent.iter().filter(on_time).copied().collect(),
        };
        if ticks.is_empty() && self.misfire == Misfire::Once {
            ticks.push(last);
        }
        let missed = passed.saturating_sub(ticks.len() as u64);
        Due { ticks, missed, last: Some(last) }
    }

    /// The number of ticks, and the latest of them.
    fn passed(&self, after: Time, now: Time) -> (u64, Vec<Time>) {
        let (mut count, mut recent) = (0, VecDeque::new());
        for tick in self.between(after, now) {
            count += 1;
            if count > MAX_COUNTED {
                return (MAX_COUNTED, self.latest(after, now));
            }
            if recent.len() == self.catch_up {
                recent.pop_front();
            }
            recent.push_back(tick);
        }
        (count, recent.into())
    }

    /// The latest of very many ticks. A schedule can only be evaluated forwards, so this searches ever longer periods
    /// before `now`.
    fn latest(&self, after: Time, now: Time) -> Vec<Time> {
        let mut stretch = PROMPT;
        loop {
            let from = after.max(now.minus(stretch));
            let mut ticks: Vec<Time> = self.between(from, now).collect();
            if ticks.len() >= self.catch_up || from == after {
                return ticks.split_off(ticks.len().saturating_sub(self.catch_up));
            }
            stretch *= 4;
        }
    }

    fn between(&self, after: Time, now: Time) -> impl Iterator<Item = Time> {
        let next = self.rules.iter().map(|rule| rule.next(after)).collect();
        Ticks { rules: &self.rules, next }.take_while(move |tick| *tick <= now)
    }
}

/// Ticks in order. A rule is evaluated again only after its own tick was taken.
struct Ticks<'a> {
    rules: &'a [Rule],
    next: Vec<Option<Time>>,
}

impl Iterator for Ticks<'_> {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let tick = self.next.iter().flatten().copied().min()?;
        for (rule, next) in self.rules.iter().zip(&mut self.next) {
            if *next == Some(tick) {
                *next = rule.next(tick);
            }
        }
        Some(tick)
    }
}
