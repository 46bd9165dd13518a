//! Durations as people write them: `500ms`, `90s`, `5m`, `1h30m`, `7d`, and ISO 8601 (`PT0.5S`, `P1DT2H`). A day is 24
//! hours and a week seven days. Months and years have no fixed length and are refused.

use std::time::Duration;

use jiff::fmt::friendly::{Designator, Spacing, SpanPrinter};
use jiff::fmt::{friendly, temporal};
use jiff::{Span, SpanRelativeTo};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration: {why}; write it as 500ms, 90s, 5m, 1h30m, 7d or PT0.5S")]
pub struct BadDuration {
    text: String,
    why: &'static str,
}

/// The longest duration [`parse`] accepts.
pub const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

const TOO_LONG: &str = "it is longer than a hundred years";

/// Reads a duration, to the microsecond. A bare number is refused because its unit would be a guess.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    read(text.trim()).map_err(|why| BadDuration { text: text.to_owned(), why })
}

fn read(text: &str) -> Result<Duration, &'static str> {
    if text.starts_with('-') {
        return Err("it is negative");
    }
    // The library accepts more than we do: months, nanoseconds, signs, `1:30:00`, `5m ago`. After our own checks, its
    // errors can only be about the order of units, a fraction, or the size.
    let span = match text.strip_prefix(['P', 'p']) {
        Some(iso) => {
            check_iso(&iso.to_ascii_uppercase())?;
            temporal::SpanParser::new().parse_span(text)
        }
        None => {
            check(text, &["us", "µs", "ms", "s", "sec", "m", "min", "h", "d", "w"])?;
            friendly::SpanParser::new().parse_span(text)
        }
    };
    let span = span.map_err(|error| match error.is_range() {
        true => TOO_LONG,
        false => "units go from long to short, and only the last, of an hour or less, may have a fraction",
    })?;
    let exact = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok();
    let exact = exact.and_then(|exact| Duration::try_from(exact).ok()).ok_or(TOO_LONG)?;
    if exact.subsec_nanos() % 1_000 != 0 {
        return Err("it is finer than a microsecond");
    }
    let micros = u64::try_from(exact.as_micros()).map_err(|_| TOO_LONG)?;
    Some(Duration::from_micros(micros)).filter(|read| *read <= LONGEST).ok_or(TOO_LONG)
}

fn check_iso(text: &str) -> Result<(), &'static str> {
    let (days, time) = match text.split_once('T') {
        Some((_, "")) => return Err("nothing follows the T"),
        Some((days, time)) => (days, Some(time)),
        None => (text, None),
    };
    match (days, time) {
        ("", Some(time)) => check(time, &["H", "M", "S"]),
        (days, Some(time)) => check(days, &["D", "W"]).and_then(|()| check(time, &["H", "M", "S"])),
        (days, None) => check(days, &["D", "W"]),
    }
}

/// Checks that the text consists of `<number><unit>` pairs.
fn check(text: &str, units: &[&str]) -> Result<(), &'static str> {
    let mut rest = text;
    if rest.is_empty() {
        return Err("it is empty");
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(letters);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') || fraction.len() > 9 {
            return Err("a number is missing or malformed");
        }
        // The library reports an integer overflow as a syntax error.
        if whole.trim_start_matches('0').len() > 18 {
            return Err(TOO_LONG);
        }
        if unit.is_empty() {
            return Err("the unit is missing");
        }
        if !units.contains(&unit.trim()) {
            return Err("the unit is unknown");
        }
        rest = next;
    }
    Ok(())
}

/// The shortest common form of a duration in whole microseconds: `1m30s`, `250ms`, `1s500ms`. [`parse`] reads it back
/// exactly.
pub fn format(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let within_day = seconds % 86_400;
    let days = i64::try_from(seconds / 86_400).unwrap_or(i64::MAX);
    let clock = |unit: u64| i64::try_from(within_day / unit).unwrap_or_default();
    let span = Span::new().try_days(days).map(|span| {
        span.hours(clock(3_600))
            .minutes(clock(60) % 60)
            .seconds(clock(1) % 60)
            .milliseconds(i64::from(duration.subsec_millis()))
            .microseconds(i64::from(duration.subsec_micros() % 1_000))
    });
    let printer = SpanPrinter::new().designator(Designator::HumanTime).spacing(Spacing::None);
    // The library has no spans beyond ten thousand years.
    span.map_or_else(|_| format!("{days}d"), |span| printer.span_to_string(&span))
}

/// For display only, such as an age in a table: at most two units, the rest is dropped.
pub fn rough(duration: Duration) -> String {
    let micros = duration.as_micros();
    let step = match duration.as_secs() {
        0 if micros < 1_000 => 1,
        0 => 1_000,
        1..3_600 => 1_000_000,
        3_600..86_400 => 60_000_000,
        _ => 3_600_000_000,
    };
    format(Duration::from_micros(u64::try_from(micros - micros % step).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
