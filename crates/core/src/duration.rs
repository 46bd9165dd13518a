//! Durations as people write them: `500ms`, `90s`, `5m`, `1h30m`, `7d`, and ISO 8601 (`PT0.5S`, `P1DT2H`).

use std::time::Duration;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration: {why}; write it as 500ms, 90s, 5m, 1h30m, 7d or PT0.5S")]
pub struct BadDuration {
    text: String,
    why: &'static str,
}

const MAX_SECONDS: f64 = 100.0 * 366.0 * 86_400.0;

/// Reads one duration; a bare number is refused because its unit would be a guess.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let bad = |why| BadDuration { text: text.to_owned(), why };
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return Err(bad("it is negative"));
    }
    let upper = trimmed.to_ascii_uppercase();
    let seconds = match upper.strip_prefix('P') {
        Some(iso) => iso_seconds(iso),
        None => plain_seconds(trimmed),
    }
    .map_err(bad)?;
    if seconds > MAX_SECONDS {
        return Err(bad("it is longer than a hundred years"));
    }
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

fn plain_seconds(text: &str) -> Result<f64, &'static str> {
    pairs(text, |unit| match unit {
        "us" | "µs" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" | "sec" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3_600.0),
        "d" => Some(86_400.0),
        "w" => Some(604_800.0),
        _ => None,
    })
}

fn iso_seconds(text: &str) -> Result<f64, &'static str> {
    let (days, time) = match text.split_once('T') {
        Some((_, "")) => return Err("nothing follows the T"),
        Some((days, time)) => (days, time),
        None => (text, ""),
    };
    let date = match days {
        "" => 0.0,
        days => pairs(days, |unit| match unit {
            "D" => Some(86_400.0),
            "W" => Some(604_800.0),
            _ => None,
        })?,
    };
    let clock = match time {
        "" if days.is_empty() => return Err("it is empty"),
        "" => 0.0,
        time => pairs(time, |unit| match unit {
            "H" => Some(3_600.0),
            "M" => Some(60.0),
            "S" => Some(1.0),
            _ => None,
        })?,
    };
    Ok(date + clock)
}

/// Sums `<number><unit>` pairs that fill the whole text.
fn pairs(text: &str, scale: impl Fn(&str) -> Option<f64>) -> Result<f64, &'static str> {
    let mut rest = text;
    let mut sum = 0.0;
    if rest.is_empty() {
        return Err("it is empty");
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(letters);
        let number: f64 = number.parse().map_err(|_| "a number is missing or malformed")?;
        if unit.is_empty() {
            return Err("the unit is missing");
        }
        sum += number * scale(unit.trim()).ok_or("the unit is unknown")?;
        rest = next.trim_start();
    }
    Ok(sum)
}

/// The shortest usual spelling: `90s`, `5m`, `1h30m`, `250ms`.
pub fn format(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros == 0 {
        return "0s".to_owned();
    }
    if micros < 1_000 {
        return format!("{micros}us");
    }
    if micros < 1_000_000 {
        return format!("{}ms", micros / 1_000);
    }
    let seconds = duration.as_secs();
    let parts =
        [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    parts.iter().filter(|(n, _)| *n > 0).take(2).map(|(n, unit)| format!("{n}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings() {
        for (text, millis) in [
            ("500ms", 500),
            ("PT0.5S", 500),
            ("pt0.5s", 500),
            ("1.5s", 1_500),
            ("5m", 300_000),
            ("PT5M", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("P1DT2H", 93_600_000),
            ("7d", 604_800_000),
            ("P2W", 1_209_600_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refused() {
        for text in ["", "5", "-5m", "m", "5 parsecs", "PT", "P", "PT5", "1..5s", "200000000d", "P1M"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn formatted() {
        for (text, expected) in
            [("90s", "1m30s"), ("250ms", "250ms"), ("P1DT2H3M", "1d2h"), ("0s", "0s"), ("60s", "1m")]
        {
            assert_eq!(format(parse(text).unwrap()), expected);
        }
    }
}
