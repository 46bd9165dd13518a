//! What an expression means: times of day, or a fixed interval.

use std::time::Duration;

use jiff::Timestamp;

use super::Zone;
use super::cron::Cron;
use crate::{Invalid, Time, duration, time};

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = crate::input::MAX_DELAY;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    Cron(Box<Cron>),
    /// Elapsed time, counted from the anchor.
    Every(Duration),
}

impl Timing {
    pub fn parse(text: &str) -> Result<Timing, Invalid> {
        match interval(text.trim()) {
            Some(interval) => every(interval.trim()).map(Timing::Every),
            None => Cron::parse(text).map(|cron| Timing::Cron(Box::new(cron))),
        }
    }

    /// The first tick strictly after `after`. `None` if there is none within fifty years or in the supported range of
    /// time.
    pub fn next(&self, after: Time, zone: &Zone, anchor: Time) -> Option<Time> {
        match self {
            Timing::Cron(cron) => {
                let after = Timestamp::from_microsecond(after.0).ok()?;
                cron.next(after, zone).map(|tick| Time(tick.as_microsecond()))
            }
            Timing::Every(period) => next_of(time::micros(*period), after, anchor),
        }
    }
}

fn interval(text: &str) -> Option<&str> {
    let (word, rest) = text.split_once(|c: char| c.is_ascii_whitespace())?;
    ["every", "@every"].iter().any(|every| word.eq_ignore_ascii_case(every)).then_some(rest)
}

fn every(text: &str) -> Result<Duration, Invalid> {
    let period = duration::parse(text).map_err(|error| Invalid::one("interval", error.to_string()))?;
    if !(SHORTEST..=LONGEST).contains(&period) {
        let rule = format!("{text} is not between 100ms and 366d");
        return Err(Invalid::one("interval", rule));
    }
    Ok(period)
}

/// Intervals of whole seconds tick on whole seconds, which is easier to read.
fn next_of(period: i64, after: Time, anchor: Time) -> Option<Time> {
    const SECOND: i64 = 1_000_000;
    let anchor = if period % SECOND == 0 { anchor.0 - anchor.0.rem_euclid(SECOND) } else { anchor.0 };
    let passed = after.0.checked_sub(anchor)?.div_euclid(period);
    let tick = passed.checked_add(1)?.checked_mul(period)?.checked_add(anchor)?;
    Timestamp::from_microsecond(tick).ok().map(|_| Time(tick))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn intervals_count_elapsed_time_from_the_anchor() {
        let zone = Zone::named("America/New_York").unwrap();
        let anchor = time("2026-03-08T05:07:30.25Z");
        for (text, after, expected) in [
            ("every 90s", anchor, "2026-03-08T05:09:00Z"),
            ("@every 1h", time("2026-03-08T06:07:30Z"), "2026-03-08T07:07:30Z"),
            ("@EVERY PT1H", time("2026-03-08T07:07:29.9Z"), "2026-03-08T07:07:30Z"),
            ("every PT0.5S", time("2026-03-08T05:07:31Z"), "2026-03-08T05:07:31.25Z"),
            ("every  500ms", time("2026-03-08T05:07:31.25Z"), "2026-03-08T05:07:31.75Z"),
        ] {
            let timing = Timing::parse(text).unwrap();
            assert_eq!(timing.next(after, &zone, anchor), Some(time(expected)), "{text}");
        }
    }

    #[test]
    fn bad_intervals() {
        for (text, part) in [
            ("every", "expression: `every` has 1 fields"),
            ("@every", "`@every` is not one of"),
            ("every 5", "interval: `5` is not a duration: the unit is missing"),
            ("every 10ms", "interval: 10ms is not between 100ms and 366d"),
            ("@every 400d", "interval: 400d is not between 100ms and 366d"),
            ("every 0s", "interval: 0s is not between"),
        ] {
            let error = Timing::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn time_ends() {
        let timing = Timing::parse("@daily").unwrap();
        assert_eq!(timing.next(Time(i64::MAX), &Zone::UTC, Time(0)), None);
        assert_eq!(timing.next(time("9999-12-30T12:00:00Z"), &Zone::UTC, Time(0)), None);
        let every = Timing::parse("every 1d").unwrap();
        assert_eq!(every.next(Time(i64::MAX), &Zone::UTC, Time(0)), None);
    }
}
