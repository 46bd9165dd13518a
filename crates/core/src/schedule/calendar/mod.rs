//! Calendars: when a market or an office is open.
//!
//! Owns the sessions of local days and the phases between them. [`nyse`] is built in; others are described by a
//! [`CalendarSpec`]. Sessions begin and end at instants, so a daylight saving shift opens nothing twice.

mod nyse;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::{Date, Time as Clock};
use serde::{Deserialize, Serialize};

pub use spec::CalendarSpec;

use super::Zone;
use crate::input::shown;
use crate::{Invalid, Time};

/// Without a change for ten years, there is none.
const MAX_DAYS: usize = 3_660;
const MINUTES_A_DAY: u16 = 24 * 60;

#[derive(Clone, Debug)]
pub struct Calendar {
    name: String,
    zone: Zone,
    /// The calendar has no data before this date.
    since: Option<Date>,
    days: Days,
}

#[derive(Clone, Debug)]
enum Days {
    Nyse,
    Own(Box<spec::Own>),
}

/// The phase of an instant on a calendar. Every instant has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Inside a session.
    Open,
    /// Outside the sessions of a day that has some: before, between or after them.
    AfterHours,
    /// On a day without a session.
    DayOff,
}

impl Phase {
    pub const ALL: [Phase; 3] = [Phase::Open, Phase::AfterHours, Phase::DayOff];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::AfterHours => "after_hours",
            Phase::DayOff => "day_off",
        }
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Phase, String> {
        let found = Phase::ALL.into_iter().find(|phase| phase.name() == text);
        found.ok_or_else(|| format!("`{}` is not one of open, after_hours, day_off", shown(text)))
    }
}

/// Minutes of the local day, end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    from: u16,
    to: u16,
}

impl Calendar {
    pub fn nyse() -> Calendar {
        // The zone is bundled, and a test checks that it is.
        let zone = Zone::named(nyse::ZONE).unwrap_or(Zone::UTC);
        Calendar { name: nyse::NAME.to_owned(), zone, since: Some(nyse::SINCE), days: Days::Nyse }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Refuses a time before the calendar's data.
    pub fn check(&self, at: Time) -> Result<(), Invalid> {
        let early = |since: &Date| self.date(at).is_none_or(|date| date < *since);
        match self.since.filter(early) {
            Some(since) => Err(Invalid::one("at", format!("{} is known from {since} on", self.name))),
            None => Ok(()),
        }
    }

    pub fn open(&self, at: Time) -> bool {
        self.phase(at) == Phase::Open
    }

    /// When it next opens or closes, strictly after `at`. `None` if it does not within ten years.
    pub fn next_change(&self, at: Time) -> Option<Time> {
        let open = self.open(at);
        let mut at = self.phase_end(at)?;
        while self.open(at) == open {
            at = self.phase_end(at)?;
        }
        Some(at)
    }

    pub fn phase(&self, at: Time) -> Phase {
        let Some(date) = self.date(at) else { return Phase::DayOff };
        let sessions = self.on(date);
        let within = |session: &Session| {
            let (from, to) = (self.instant(date, session.from), self.instant(date, session.to));
            from.is_some_and(|from| from <= at) && to.is_none_or(|to| at < to)
        };
        match sessions {
            [] => Phase::DayOff,
            sessions if sessions.iter().any(within) => Phase::Open,
            _ => Phase::AfterHours,
        }
    }

    /// When the next phase begins, strictly after `at`.
    pub(super) fn phase_end(&self, at: Time) -> Option<Time> {
        let phase = self.phase(at);
        let mut date = self.date(at)?;
        for _ in 0..MAX_DAYS {
            let edges = self.on(date).iter().flat_map(|session| [session.from, session.to]);
            for edge in std::iter::once(0).chain(edges) {
                let edge = self.instant(date, edge)?;
                if edge > at && self.phase(edge) != phase {
                    return Some(edge);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The sessions on the local day of `at`.
    pub fn sessions(&self, at: Time) -> Vec<(Time, Time)> {
        let Some(date) = self.date(at) else { return Vec::new() };
        let instants =
            |session: &Session| self.instant(date, session.from).zip(self.instant(date, session.to));
        self.on(date).iter().filter_map(instants).collect()
    }

    fn on(&self, date: Date) -> &[Session] {
        match &self.days {
            Days::Nyse => nyse::sessions(date),
            Days::Own(own) => own.sessions(date),
        }
    }

    fn date(&self, at: Time) -> Option<Date> {
        Some(self.zone.wall(Timestamp::from_microsecond(at.0).ok()?).date())
    }

    fn instant(&self, date: Date, minute: u16) -> Option<Time> {
        let wall = match minute {
            MINUTES_A_DAY => date.tomorrow().ok()?.to_datetime(Clock::midnight()),
            minute => {
                let (hour, minute) = (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
                date.to_datetime(Clock::new(hour, minute, 0, 0).ok()?)
            }
        };
        self.zone.instant(wall).map(|at| Time(at.as_microsecond()))
    }
}

/// The calendars that rules may refer to. NYSE is always available.
#[derive(Clone, Debug)]
pub struct Calendars(BTreeMap<String, Arc<Calendar>>);

impl Default for Calendars {
    fn default() -> Calendars {
        Calendars(BTreeMap::from([(nyse::NAME.to_owned(), Arc::new(Calendar::nyse()))]))
    }
}

impl Calendars {
    /// Replaces one with the same name.
    pub fn add(&mut self, calendar: Calendar) {
        self.0.insert(calendar.name.clone(), Arc::new(calendar));
    }

    /// The built-in name is case-insensitive. A user's calendar with exactly the given name takes precedence.
    pub fn named(&self, name: &str) -> Result<&Arc<Calendar>, String> {
        let built_in = || self.0.get(nyse::NAME).filter(|_| name.eq_ignore_ascii_case(nyse::NAME));
        self.0.get(name).or_else(built_in).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            format!("`{}` is not a calendar; known: {}", shown(name), known.join(", "))
        })
    }
}
