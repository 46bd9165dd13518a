//! A user's description of a calendar: zone, weekly sessions, closed dates, days with other hours.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::{Calendar, Days, MINUTES_A_DAY, Session};
use crate::Invalid;
use crate::input::shown;
use crate::schedule::{Zone, cron};

const MAX_DATES: usize = 10_000;
const MAX_SESSIONS: usize = 24;

/// Sessions are written `09:30-16:00`, dates `2026-12-24` or, for every year, `12-24`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    #[serde(default)]
    pub name: String,
    pub zone: String,
    /// By weekdays as in cron: `mon-fri`, `sat,sun`.
    pub sessions: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub closed: Vec<String>,
    /// Dates with their own sessions instead of those of the weekday.
    #[serde(default)]
    pub half_days: BTreeMap<String, Vec<String>>,
}

/// Precedence: a date, a yearly date, the weekday.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    /// Sunday first.
    week: [Vec<Session>; 7],
    yearly: BTreeMap<(i8, i8), Vec<Session>>,
    dates: BTreeMap<Date, Vec<Session>>,
}

impl Own {
    pub(super) fn sessions(&self, date: Date) -> &[Session] {
        let weekday = usize::from(date.weekday().to_sunday_zero_offset().unsigned_abs());
        let special = self.dates.get(&date).or_else(|| self.yearly.get(&(date.month(), date.day())));
        special.or(self.week.get(weekday)).map_or(&[], Vec::as_slice)
    }
}

impl CalendarSpec {
    pub fn check(&self) -> Result<Calendar, Invalid> {
        let mut invalid = Invalid::default();
        invalid.check_name("name", &self.name);
        let zone = Zone::named(&self.zone).unwrap_or_else(|error| {
            invalid.add("zone", error.to_string());
            Zone::UTC
        });
        let mut own = Own::default();
        self.week(&mut own, &mut invalid);
        self.dates(&mut own, &mut invalid);
        if own.week.iter().chain(own.yearly.values()).chain(own.dates.values()).all(Vec::is_empty) {
            invalid.add("sessions", "has none: the calendar would never open");
        }
        invalid.into_result()?;
        Ok(Calendar { name: self.name.clone(), zone, since: None, days: Days::Own(Box::new(own)) })
    }

    fn week(&self, own: &mut Own, invalid: &mut Invalid) {
        let mut seen = 0u64;
        for (days, texts) in &self.sessions {
            let field = format!("sessions.{}", shown(days));
            let mask = cron::weekdays(days).unwrap_or_else(|rule| {
                invalid.add(&field, rule);
                0
            });
            if mask & seen != 0 {
                invalid.add(&field, "names a day that another line names too");
            }
            seen |= mask;
            let sessions = sessions(&field, texts, invalid);
            for (_, day) in own.week.iter_mut().enumerate().filter(|(n, _)| mask & 1 << n != 0) {
                *day = sessions.clone();
            }
        }
    }

    fn dates(&self, own: &mut Own, invalid: &mut Invalid) {
        let count = self.closed.len() + self.half_days.len();
        if count > MAX_DATES {
            return invalid
                .add("closed", format!("with half_days has {count} dates; at most {MAX_DATES} are allowed"));
        }
        let closed = self.closed.iter().map(|date| ("closed", date, Vec::new()));
        let mut half_days = Vec::new();
        for (date, texts) in &self.half_days {
            let sessions = sessions(&format!("half_days.{}", shown(date)), texts, invalid);
            half_days.push(("half_days", date, sessions));
        }
        for (field, text, sessions) in closed.chain(half_days) {
            let earlier = match day(text) {
                Some(Day::Once(date)) => own.dates.insert(date, sessions).is_some(),
                Some(Day::Yearly(month, day)) => own.yearly.insert((month, day), sessions).is_some(),
                None => {
                    let rule =
                        format!("`{}` is not a date; write 2026-12-24, or 12-24 for every year", shown(text));
                    invalid.add(field, rule);
                    false
                }
            };
            if earlier {
                invalid.add(field, format!("{text} is listed twice"));
            }
        }
    }
}

enum Day {
    Once(Date),
    Yearly(i8, i8),
}

fn day(text: &str) -> Option<Day> {
    match text.len() {
        10 => text.parse().ok().map(Day::Once),
        // 2024 is a leap year, so 02-29 is valid.
        5 => format!("2024-{text}").parse::<Date>().ok().map(|date| Day::Yearly(date.month(), date.day())),
        _ => None,
    }
}

fn sessions(field: &str, texts: &[String], invalid: &mut Invalid) -> Vec<Session> {
    if texts.len() > MAX_SESSIONS {
        invalid.add(field, format!("has {} sessions; at most {MAX_SESSIONS} are allowed", texts.len()));
        return Vec::new();
    }
    let mut sessions: Vec<Session> = Vec::new();
    for text in texts {
        let Some(session) = session(text) else {
            let rule = format!("`{}` is not a session; write 09:30-16:00, at most until 24:00", shown(text));
            invalid.add(field, rule);
            continue;
        };
        if sessions.last().is_some_and(|last| last.to > session.from) {
            invalid.add(field, format!("{text} begins before the session in front of it ends"));
        }
        sessions.push(session);
    }
    sessions
}

fn session(text: &str) -> Option<Session> {
    let (from, to) = text.split_once('-')?;
    let session = Session { from: minute(from.trim())?, to: minute(to.trim())? };
    (session.from < session.to).then_some(session)
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|c| c.is_ascii_digit());
    if !digits(hour) || !digits(minute) {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    let minutes = hour * 60 + minute;
    (minute < 60 && minutes <= MINUTES_A_DAY).then_some(minutes)
}
