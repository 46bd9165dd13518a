//! The days on which a cron expression fires: month, day of month and day of week combined.

use jiff::civil::{Date, Weekday};

use super::field::{Mask, Range};
use crate::Invalid;

const DAYS: Range = Range { name: "day of month", min: 1, max: 31, names: &[] };
const MONTHS: Range = Range {
    name: "month",
    min: 1,
    max: 12,
    names: &[
        "JANUARY",
        "FEBRUARY",
        "MARCH",
        "APRIL",
        "MAY",
        "JUNE",
        "JULY",
        "AUGUST",
        "SEPTEMBER",
        "OCTOBER",
        "NOVEMBER",
        "DECEMBER",
    ],
};
const WEEKDAYS: Range = Range {
    name: "day of week",
    min: 0,
    max: 7,
    names: &["SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"],
};
/// The longest gap is that between fifth Mondays in February: 40 years.
const MAX_MONTHS: u32 = 12 * 50;
const LONGEST: [i8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Days {
    months: Mask,
    of_month: OfMonth,
    of_week: OfWeek,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfMonth {
    any: bool,
    plain: Mask,
    /// The nearest working day to each of these.
    nearest: Mask,
    /// Counted back from the last day of the month.
    from_last: Mask,
    last_working: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfWeek {
    any: bool,
    plain: Mask,
    /// The last of the month.
    last: Mask,
    /// The first to fifth of the month.
    nth: [Mask; 5],
}

impl Days {
    /// Adds problems to `invalid`.
    pub(super) fn read(day: &str, month: &str, weekday: &str, invalid: &mut Invalid) -> Days {
        let mut days = Days::default();
        let results = [
            (DAYS.name, days.of_month.read(day)),
            (MONTHS.name, MONTHS.read(month).map(|set| days.months = set.mask)),
            (WEEKDAYS.name, days.of_week.read(weekday)),
        ];
        for (name, result) in results {
            if let Err(rule) = result {
                invalid.add(name, rule);
            }
        }
        if invalid.problems.is_empty() && !days.ever() {
            invalid.add(DAYS.name, format!("{day} never comes in month {month}"));
        }
        days
    }

    pub(super) fn fits(&self, date: Date) -> bool {
        self.months.has(date.month()) && self.within(date).has(date.day())
    }

    pub(super) fn at_or_after(&self, date: Date) -> Option<Date> {
        let (mut first, mut day) = (date.first_of_month(), date.day());
        for _ in 0..MAX_MONTHS {
            if self.months.has(first.month())
                && let Some(found) = self.within(first).at_or_after(day)
            {
                return Date::new(first.year(), first.month(), found).ok();
            }
            first = first.last_of_month().tomorrow().ok()?;
            day = 1;
        }
        None
    }

    /// The matching days in the month of `date`.
    fn within(&self, date: Date) -> Mask {
        let first = date.first_of_month();
        let length = date.days_in_month();
        let all = (1u64 << (length + 1)) - 2;
        let fitting = match (self.of_month.any, self.of_week.any) {
            (true, true) => all,
            (false, true) => self.of_month.within(first, length),
            (true, false) => self.of_week.within(first, length),
            (false, false) => self.of_month.within(first, length) | self.of_week.within(first, length),
        };
        Mask(fitting & all)
    }

    fn ever(&self) -> bool {
        let OfMonth { any, plain, nearest, from_last, last_working } = &self.of_month;
        let always = *any || *last_working || !self.of_week.any;
        let longest = LONGEST.iter().zip(1..).filter(|(_, month)| self.months.has(*month));
        let longest = longest.map(|(days, _)| *days).max().unwrap_or(0);
        let named = Mask(plain.0 | nearest.0).first();
        always || named.is_some_and(|day| day <= longest) || from_last.first().is_some_and(|n| n < longest)
    }
}

impl OfMonth {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let OfMonth { nearest, from_last, last_working, .. } = self;
        let set = DAYS.read_with(text, |entry| {
            if entry == "LW" {
                *last_working = true;
            } else if entry == "L" {
                from_last.0 |= 1;
            } else if let Some(back) = entry.strip_prefix("L-") {
                let back = DAYS.value(back).ok().filter(|back| *back <= 30);
                let back = back.ok_or_else(|| format!("`{entry}` is not L-1 to L-30"))?;
                from_last.0 |= 1 << back;
            } else if let Some(day) = entry.strip_suffix('W') {
                nearest.0 |= 1 << DAYS.value(day)?;
            } else {
                return Ok(false);
            }
            Ok(true)
        })?;
        (self.any, self.plain) = (set.any, set.mask);
        Ok(())
    }

    fn within(&self, first: Date, length: i8) -> u64 {
        let mut days = self.plain.0;
        let mut nearest = self.nearest.0 & !(u64::MAX << (length + 1));
        if self.last_working {
            nearest |= 1 << length;
        }
        for day in bits(nearest) {
            days |= 1 << working(first, day, length);
        }
        for back in bits(self.from_last.0).filter(|back| *back < length) {
            days |= 1 << (length - back);
        }
        days
    }
}

impl OfWeek {
    fn read(&mut self, text: &str) -> Result<(), String> {
        let OfWeek { last, nth, .. } = self;
        let weekday = |text: &str| WEEKDAYS.value(text).map(|day| day % 7);
        let set = WEEKDAYS.read_with(text, |entry| {
            if let Some((day, place)) = entry.split_once('#') {
                let place = place.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
                let masks = place.and_then(|place| nth.get_mut(place));
                let mask = masks.ok_or_else(|| format!("`{entry}` is not the 1st to 5th (5#3)"))?;
                mask.0 |= 1 << weekday(day)?;
            } else if entry == "L" {
                return Err("`L` alone is no day; write the last Friday as 5L".to_owned());
            } else if let Some(day) = entry.strip_suffix('L') {
                last.0 |= 1 << weekday(day)?;
            } else {
                return Ok(false);
            }
            Ok(true)
        })?;
        (self.any, self.plain) = (set.any, one_sunday(set.mask));
        Ok(())
    }

    fn within(&self, first: Date, length: i8) -> u64 {
        let offset = first.weekday().to_sunday_zero_offset();
        let mut days = 0;
        for day in 1..=length {
            let weekday = (offset + day - 1) % 7;
            let place = self.nth.get(usize::from((day - 1).unsigned_abs()) / 7);
            let last = day + 7 > length && self.last.has(weekday);
            if self.plain.has(weekday) || last || place.is_some_and(|place| place.has(weekday)) {
                days |= 1 << day;
            }
        }
        days
    }
}

/// Plain weekdays only, without `L` and `#`.
pub(super) fn weekdays(text: &str) -> Result<Mask, String> {
    WEEKDAYS.read(text).map(|set| one_sunday(set.mask))
}

/// Maps 7 to 0.
fn one_sunday(mask: Mask) -> Mask {
    Mask((mask.0 | mask.0 >> 7) & 0x7f)
}

/// The nearest working day within the month.
fn working(first: Date, day: i8, length: i8) -> i8 {
    let weekday = first.weekday().wrapping_add(day - 1);
    match weekday {
        Weekday::Saturday if day == 1 => 3,
        Weekday::Saturday => day - 1,
        Weekday::Sunday if day == length => day - 2,
        Weekday::Sunday => day + 1,
        _ => day,
    }
}

fn bits(mut mask: u64) -> impl Iterator<Item = i8> {
    std::iter::from_fn(move || {
        let bit = Mask(mask).first()?;
        mask &= mask - 1;
        Some(bit)
    })
}
