//! A point in time in microseconds since the Unix epoch, as both databases store and compare it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    pub fn from_millis(millis: i64) -> Time {
        Time(millis.saturating_mul(1_000))
    }

    pub fn plus(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(micros(duration)))
    }

    pub fn minus(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(micros(duration)))
    }

    /// Zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// In microseconds, as stored.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// RFC 3339 in UTC; microseconds only if there are any.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_microsecond(self.0) {
            Ok(stamp) => stamp.fmt(f),
            Err(_) => write!(f, "{} µs since 1970", self.0),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a time; write it as 2026-01-31T15:04:05Z or with an offset such as +02:00")]
pub struct BadTime(String);

impl FromStr for Time {
    type Err = BadTime;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Timestamp>().map(|t| Time(t.as_microsecond())).map_err(|_| BadTime(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_round_trip() {
        let time: Time = "2026-11-15T20:10:56.25Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-15T20:10:56.25Z");
        assert_eq!("2026-11-15T21:10:56.25+01:00".parse::<Time>().unwrap(), time);
        assert!("yesterday".parse::<Time>().unwrap_err().to_string().contains("2026-01-31T15:04:05Z"));
    }

    #[test]
    fn far_ends_saturate() {
        assert_eq!(Time(i64::MAX).plus(Duration::from_secs(1)), Time(i64::MAX));
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    }
}
