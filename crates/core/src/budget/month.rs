//! A calendar month in UTC: the period of every budget.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::Time;

/// Months since year 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Month(i32);

impl Month {
    /// The month that contains `time`.
    pub fn of(time: Time) -> Month {
        // Times beyond the calendar's range need no budget.
        let stamp = Timestamp::from_microsecond(time.0).unwrap_or(Timestamp::UNIX_EPOCH);
        let date = stamp.to_zoned(TimeZone::UTC).date();
        Month(i32::from(date.year()) * 12 + i32::from(date.month()) - 1)
    }

    fn year(self) -> i32 {
        self.0.div_euclid(12)
    }

    fn number(self) -> i32 {
        self.0.rem_euclid(12) + 1
    }

    pub fn start(self) -> Time {
        let date = Date::new(self.year() as i16, self.number() as i8, 1).ok();
        let zoned = date.and_then(|date| date.to_zoned(TimeZone::UTC).ok());
        Time(zoned.map_or(i64::MAX, |zoned| zoned.timestamp().as_microsecond()))
    }

    pub fn next(self) -> Month {
        Month(self.0 + 1)
    }

    /// `months` months earlier.
    pub fn back(self, months: u32) -> Month {
        Month(self.0.saturating_sub(i32::try_from(months).unwrap_or(i32::MAX)).max(0))
    }
}

/// `2026-11`, which sorts in time order.
impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:04}-{:02}", self.year(), self.number()))
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a month; write it as 2026-11", crate::input::shown(.0))]
pub struct BadMonth(String);

impl FromStr for Month {
    type Err = BadMonth;

    fn from_str(text: &str) -> Result<Month, BadMonth> {
        let bad = || BadMonth(text.to_owned());
        let (year, month) = text.split_once('-').ok_or_else(bad)?;
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if year.len() != 4 || month.len() != 2 || !digits(year) || !digits(month) {
            return Err(bad());
        }
        let (year, month): (i32, i32) = (year.parse().map_err(|_| bad())?, month.parse().map_err(|_| bad())?);
        if !(1970..=9998).contains(&year) || !(1..=12).contains(&month) {
            return Err(bad());
        }
        Ok(Month(year * 12 + month - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_begins_and_ends_in_utc() {
        let at = |text: &str| text.parse::<Time>().unwrap();
        let november: Month = "2026-11".parse().unwrap();
        assert_eq!(november.start(), at("2026-11-01T00:00:00Z"));
        assert_eq!(Month::of(at("2026-11-01T00:00:00Z")), november);
        assert_eq!(Month::of(at("2026-11-30T23:59:59.999999Z")), november);
        assert_eq!(Month::of(at("2026-12-01T00:30:00+01:00")), november);
        assert_eq!(november.next().next().to_string(), "2027-01");
        assert_eq!(november.back(11).to_string(), "2025-12");
    }

    #[test]
    fn an_invalid_month_is_refused() {
        for text in ["", "2026", "2026-13", "2026-00", "2026-1", "26-01", "2026-11-01", "2026_11", "+026-11"]
        {
            assert!(text.parse::<Month>().is_err(), "{text}");
        }
    }
}
