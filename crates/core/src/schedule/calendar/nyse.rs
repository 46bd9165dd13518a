//! The New York Stock Exchange: regular sessions, holidays, half days and special days.
//!
//! From 1990 on. Days and regular hours agree with exchange_calendars 4.13 and pandas_market_calendars 5.5 for
//! 1990–2030. Special hours are as they actually were. Trading halts and moments of silence do not change a session.

use jiff::civil::{Date, Weekday, date};

use super::Session;

pub(super) const NAME: &str = "NYSE";
pub(super) const ZONE: &str = "America/New_York";
pub(super) const SINCE: Date = date(1990, 1, 1);

const REGULAR: [Session; 1] = [hours(9 * 60 + 30, 16 * 60)];
const UNTIL_ONE: [Session; 1] = [hours(9 * 60 + 30, 13 * 60)];
const UNTIL_TWO: [Session; 1] = [hours(9 * 60 + 30, 14 * 60)];

/// Closed in addition to the holidays.
const CLOSED: [Date; 11] = [
    // Days of mourning: Nixon, Reagan, Ford, Bush, Carter.
    date(1994, 4, 27),
    date(2004, 6, 11),
    date(2007, 1, 2),
    date(2018, 12, 5),
    date(2025, 1, 9),
    // The attacks of September 11.
    date(2001, 9, 11),
    date(2001, 9, 12),
    date(2001, 9, 13),
    date(2001, 9, 14),
    // Hurricane Sandy.
    date(2012, 10, 29),
    date(2012, 10, 30),
];

const SPECIAL: [(Date, [Session; 1]); 9] = [
    // Snow.
    (date(1994, 2, 11), [hours(9 * 60 + 30, 14 * 60 + 30)]),
    (date(1996, 1, 8), [hours(11 * 60, 14 * 60)]),
    // Computer failures.
    (date(1995, 12, 18), [hours(10 * 60 + 30, 16 * 60)]),
    (date(2005, 6, 1), [hours(9 * 60 + 30, 15 * 60 + 56)]),
    // The market fall that ended trading for the day.
    (date(1997, 10, 27), [hours(9 * 60 + 30, 15 * 60 + 30)]),
    // Fridays after Christmas, and the last trading day of 1999.
    (date(1997, 12, 26), UNTIL_ONE),
    (date(2003, 12, 26), UNTIL_ONE),
    (date(1999, 12, 31), UNTIL_ONE),
    // First anniversary of the attacks.
    (date(2002, 9, 11), [hours(12 * 60, 16 * 60)]),
];

const fn hours(from: u16, to: u16) -> Session {
    Session { from, to }
}

pub(super) fn sessions(date: Date) -> &'static [Session] {
    let weekend = matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
    if weekend || holiday(date) || CLOSED.contains(&date) {
        return &[];
    }
    match SPECIAL.iter().find(|(special, _)| *special == date) {
        Some((_, sessions)) => sessions,
        None => regular(date),
    }
}

fn regular(date: Date) -> &'static [Session] {
    use Weekday::{Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};
    let year = date.year();
    let early = match (date.month(), date.day(), date.weekday()) {
        // The day before Independence Day. Until 2012, if the 4th was a Thursday, the Friday after it was the half day
        // instead.
        (7, 3, Monday | Tuesday | Thursday) => year >= 1995,
        (7, 3, Wednesday) => year >= 2013,
        (7, 5, Friday) => (1995..=2012).contains(&year),
        // The day after Thanksgiving.
        (11, 23..=29, Friday) => year >= 1992,
        // If the 24th is a Friday, it is itself the holiday, because Christmas is a Saturday.
        (12, 24, weekday) => !matches!(weekday, Friday | Saturday | Sunday),
        _ => false,
    };
    match early {
        false => &REGULAR,
        true if year < 1993 => &UNTIL_TWO,
        true => &UNTIL_ONE,
    }
}

fn holiday(date: Date) -> bool {
    use Weekday::{Monday, Thursday};
    let (year, day, weekday) = (date.year(), date.day(), date.weekday());
    match date.month() {
        // A New Year's Day on a Saturday is not observed on Friday, the last day of the year.
        1 => {
            day == 1
                || (day == 2 && weekday == Monday)
                || (weekday == Monday && (15..=21).contains(&day) && year >= 1998)
        }
        2 => weekday == Monday && (15..=21).contains(&day),
        3 | 4 => good_friday(year) == Some(date),
        5 => weekday == Monday && day >= 25,
        6 => year >= 2022 && observed(year, 6, 19) == Some(date),
        7 => observed(year, 7, 4) == Some(date),
        9 => weekday == Monday && day <= 7,
        11 => weekday == Thursday && (22..=28).contains(&day),
        12 => observed(year, 12, 25) == Some(date),
        _ => false,
    }
}

/// The day on which a holiday is observed: Friday if it is a Saturday, Monday if it is a Sunday.
fn observed(year: i16, month: i8, day: i8) -> Option<Date> {
    let date = Date::new(year, month, day).ok()?;
    match date.weekday() {
        Weekday::Saturday => date.yesterday().ok(),
        Weekday::Sunday => date.tomorrow().ok(),
        _ => Some(date),
    }
}

/// Two days before Easter, by the Meeus/Jones/Butcher algorithm.
fn good_friday(year: i16) -> Option<Date> {
    let year = i32::from(year);
    let (a, b, c) = (year % 19, year / 100, year % 100);
    let h = (19 * a + b - b / 4 - (b - (b + 8) / 25 + 1) / 3 + 15) % 30;
    let l = (32 + 2 * (b % 4) + 2 * (c / 4) - h - c % 4) % 7;
    let m = (a + 11 * h + 22 * l) / 451;
    let n = h + l - 7 * m + 114;
    let easter =
        Date::new(i16::try_from(year).ok()?, i8::try_from(n / 31).ok()?, i8::try_from(n % 31 + 1).ok()?);
    easter.ok()?.yesterday().ok()?.yesterday().ok()
}
