//! Cron expressions: parsing, validation, and the next time one fires.
//!
//! [`field`] reads one field, [`day`] decides which days match. See [`super`] for the accepted syntax and daylight
//! saving shifts.

mod day;
mod field;
#[cfg(test)]
mod tests;

use jiff::civil::{DateTime, Time as Clock};
use jiff::{SignedDuration, Timestamp};

use super::Zone;
use crate::Invalid;
use crate::input::shown;
use day::Days;
use field::{Mask, Range};

const MAX_BYTES: usize = 1_024;
/// The largest possible difference between two UTC offsets.
const WIDEST: SignedDuration = SignedDuration::from_hours(26);
const SECOND: SignedDuration = SignedDuration::from_secs(1);

const SECONDS: Range = Range { name: "second", min: 0, max: 59, names: &[] };
const MINUTES: Range = Range { name: "minute", min: 0, max: 59, names: &[] };
const HOURS: Range = Range { name: "hour", min: 0, max: 23, names: &[] };

const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    seconds: Mask,
    minutes: Mask,
    hours: Mask,
    days: Days,
    /// Follows the wall clock through skipped and repeated hours.
    wild: bool,
}

impl Cron {
    /// Parses an expression and reports every invalid field.
    pub fn parse(text: &str) -> Result<Cron, Invalid> {
        if text.len() > MAX_BYTES {
            return Err(refused(format!("is {} bytes; at most {MAX_BYTES} are allowed", text.len())));
        }
        let text = text.trim();
        if let Some(zone) = ["TZ=", "CRON_TZ="].iter().find_map(|word| text.strip_prefix(word)) {
            return Err(refused(with_zone(zone)));
        }
        let text = expanded(text)?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [second, minute, hour, day, month, weekday] = match *fields.as_slice() {
            [minute, hour, day, month, weekday] => ["0", minute, hour, day, month, weekday],
            [second, minute, hour, day, month, weekday] => [second, minute, hour, day, month, weekday],
            _ => return Err(refused(wrong_count(text, fields.len()))),
        };
        let mut invalid = Invalid::default();
        let mut read = |range: &Range, text: &str| {
            range.read(text).unwrap_or_else(|rule| {
                invalid.add(range.name, rule);
                field::Set::default()
            })
        };
        let sets = [read(&SECONDS, second), read(&MINUTES, minute), read(&HOURS, hour)];
        let days = Days::read(day, month, weekday, &mut invalid);
        invalid.into_result()?;
        let wild = sets.iter().any(|set| set.star);
        let [seconds, minutes, hours] = sets.map(|set| set.mask);
        Ok(Cron { seconds, minutes, hours, days, wild })
    }

    /// The first tick strictly after `after`.
    pub(super) fn next(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let from =
            Timestamp::from_second(after.as_second() - i64::from(after.subsec_nanosecond() < 0)).ok()?;
        let from = from.checked_add(SECOND).ok()?;
        if self.wild { self.next_on_the_wall(from, zone) } else { self.next_named(from, zone) }
    }

    /// The next matching wall-clock time, searched in each period between two shifts.
    fn next_on_the_wall(&self, mut from: Timestamp, zone: &Zone) -> Option<Timestamp> {
        loop {
            let offset = zone.offset(from);
            let found = self.at_or_after(offset.to_datetime(from))?;
            let at = offset.to_timestamp(found).ok()?;
            from = match zone.shift(from) {
                None => return Some(at),
                Some(shift) if at < shift => return Some(at),
                // This close to a shift, the wall clock may return to times before the one we started with.
                Some(shift) if shift < from.checked_add(WIDEST).ok()? => shift,
                // At another offset the time we found comes earlier, but by at most the widest difference.
                Some(shift) => shift.max(at.checked_sub(WIDEST).ok()?),
            };
        }
    }

    /// Each named time of day fires once: right after the gap that skips it, or at the first of two occurrences.
    fn next_named(&self, from: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let mut wall = zone.wall(from);
        loop {
            let found = self.at_or_after(wall)?;
            let at = zone.instant(found)?;
            if at >= from {
                return Some(at);
            }
            wall = found.checked_add(SECOND).ok()?;
        }
    }

    /// The first match, ignoring shifts.
    fn at_or_after(&self, wall: DateTime) -> Option<DateTime> {
        let today = self.days.fits(wall.date());
        if let Some(clock) = self.clock_at_or_after(wall.time()).filter(|_| today) {
            return Some(wall.date().to_datetime(clock));
        }
        let day = self.days.at_or_after(wall.date().tomorrow().ok()?)?;
        Some(day.to_datetime(self.clock_at_or_after(Clock::midnight())?))
    }

    fn clock_at_or_after(&self, clock: Clock) -> Option<Clock> {
        let (hour, minute, second) = (clock.hour(), clock.minute(), clock.second());
        let first = (self.minutes.first()?, self.seconds.first()?);
        let found = match self.hours.at_or_after(hour)? {
            later if later > hour => (later, first.0, first.1),
            _ => match self.minutes.at_or_after(minute) {
                Some(later) if later > minute => (hour, later, first.1),
                Some(_) if self.seconds.at_or_after(second).is_some() => {
                    (hour, minute, self.seconds.at_or_after(second)?)
                }
                _ => match self.minutes.at_or_after(minute + 1) {
                    Some(later) => (hour, later, first.1),
                    None => (self.hours.at_or_after(hour + 1)?, first.0, first.1),
                },
            },
        };
        Clock::new(found.0, found.1, found.2, 0).ok()
    }
}

/// Weekdays as in a cron field; bit 0 is Sunday.
pub(super) fn weekdays(text: &str) -> Result<u64, String> {
    day::weekdays(text).map(|mask| mask.0)
}

/// Replaces a macro by its five fields.
fn expanded(text: &str) -> Result<&str, Invalid> {
    if !text.starts_with('@') {
        return Ok(text);
    }
    let known = MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, fields)| *fields).ok_or_else(|| {
        let names: Vec<&str> = MACROS.iter().map(|(name, _)| *name).collect();
        refused(format!("`{}` is not one of {}, @every DURATION", shown(text), names.join(", ")))
    })
}

/// Other programs accept a zone at the start of the expression.
fn with_zone(text: &str) -> String {
    let zone = shown(text.split_ascii_whitespace().next().unwrap_or_default());
    format!("names the zone `{zone}`; give it beside the expression: --zone {zone}, or the field zone")
}

fn wrong_count(text: &str, count: usize) -> String {
    format!(
        "`{}` has {count} fields; write five (minute, hour, day of month, month, day of week), or six with seconds first",
        shown(text)
    )
}

fn refused(rule: String) -> Invalid {
    Invalid::one("expression", rule)
}
