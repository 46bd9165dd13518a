//! One field of a cron expression: a list of values, ranges and steps, as a bit set.

use crate::input::shown;

/// Bit n stands for the value n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask(pub(super) u64);

impl Mask {
    pub(super) fn has(self, value: i8) -> bool {
        self.at_or_after(value) == Some(value)
    }

    pub(super) fn first(self) -> Option<i8> {
        self.at_or_after(0)
    }

    pub(super) fn at_or_after(self, value: i8) -> Option<i8> {
        let left = self.0 & u64::MAX.checked_shl(u32::from(value.unsigned_abs()))?;
        if left == 0 { None } else { i8::try_from(left.trailing_zeros()).ok() }
    }
}

/// The content of one field.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Set {
    pub(super) mask: Mask,
    /// Contains a star, or covers the whole range.
    pub(super) star: bool,
    /// A bare star, which restricts nothing.
    pub(super) any: bool,
}

/// The allowed values of a field.
pub(super) struct Range {
    pub(super) name: &'static str,
    pub(super) min: u8,
    pub(super) max: u8,
    /// The first is the name of `min`.
    pub(super) names: &'static [&'static str],
}

impl Range {
    pub(super) fn read(&self, text: &str) -> Result<Set, String> {
        self.read_with(text, |_| Ok(false))
    }

    /// `special` gets each entry of the list first, in upper case, and returns whether it handled it.
    pub(super) fn read_with(
        &self,
        text: &str,
        mut special: impl FnMut(&str) -> Result<bool, String>,
    ) -> Result<Set, String> {
        let mut set = Set::default();
        for entry in text.split(',') {
            let entry = entry.to_ascii_uppercase();
            if entry.is_empty() {
                return Err(format!("`{}` has an empty place in its list", shown(text)));
            }
            if special(&entry)? {
                continue;
            }
            self.entry(&entry, &mut set)?;
        }
        let full = self.span(self.min, self.last(), 1);
        set.star |= set.mask.0 & full == full;
        Ok(set)
    }

    /// `*`, `5`, `5-9`, each with or without `/step`.
    fn entry(&self, entry: &str, set: &mut Set) -> Result<(), String> {
        let (values, step) = match entry.split_once('/') {
            None => (entry, None),
            Some((values, step)) => (values, Some(self.step(entry, step)?)),
        };
        let (from, to) = if matches!(values, "*" | "?") {
            set.star = true;
            set.any |= step.is_none_or(|step| step == 1);
            (self.min, self.last())
        } else if let Some((from, to)) = values.split_once('-').filter(|(from, to)| from.len() * to.len() > 0)
        {
            let from = self.value(from)?;
            (from, self.end_of_range(from, to)?)
        } else {
            let from = self.value(values)?;
            (from, if step.is_some() { self.last().max(from) } else { from })
        };
        if from > to {
            return Err(format!("`{}` runs backwards; write two ranges", shown(entry)));
        }
        set.mask.0 |= self.span(from, to, step.unwrap_or(1));
        Ok(())
    }

    /// A number in range, or a name, abbreviated to three letters or in full.
    pub(super) fn value(&self, text: &str) -> Result<u8, String> {
        let name = |name: &&str| text.eq_ignore_ascii_case(name) || text.eq_ignore_ascii_case(&name[..3]);
        if let Some(place) = self.names.iter().position(name) {
            return Ok(self.min + place as u8);
        }
        let number = if text.bytes().all(|c| c.is_ascii_digit()) { text.parse::<u8>().ok() } else { None };
        match number {
            Some(number) if (self.min..=self.max).contains(&number) => Ok(number),
            _ => Err(format!("{} is not {}", quoted(text), self.described())),
        }
    }

    /// If the first value has a second number, its name at the end of a range means that one: SAT-SUN is 6-7.
    fn end_of_range(&self, from: u8, text: &str) -> Result<u8, String> {
        let to = self.value(text)?;
        let by_name = !text.starts_with(|c: char| c.is_ascii_digit());
        Ok(if by_name && to == self.min && from > to && self.max > self.last() { self.max } else { to })
    }

    fn step(&self, entry: &str, text: &str) -> Result<u8, String> {
        match text.parse::<u8>() {
            Ok(step) if (1..=self.max).contains(&step) && text.bytes().all(|c| c.is_ascii_digit()) => {
                Ok(step)
            }
            _ => Err(format!(
                "the step of `{}` is not 1–{}; for longer periods write @every DURATION",
                shown(entry),
                self.max
            )),
        }
    }

    fn span(&self, from: u8, to: u8, step: u8) -> u64 {
        (from..=to).step_by(usize::from(step.max(1))).fold(0, |mask, value| mask | 1 << value)
    }

    /// The largest value that is not an alias: a week ends on Saturday, although 7 is read as Sunday.
    fn last(&self) -> u8 {
        if self.names.is_empty() { self.max } else { self.min + self.names.len() as u8 - 1 }
    }

    fn described(&self) -> String {
        match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => {
                format!("{}–{} or {}–{}", self.min, self.max, &first[..3], &last[..3])
            }
            _ => format!("{}–{}", self.min, self.max),
        }
    }
}

/// For error messages: a number as it is, other text in quotes.
fn quoted(text: &str) -> String {
    if !text.is_empty() && text.len() < 10 && text.bytes().all(|c| c.is_ascii_digit()) {
        return text.to_owned();
    }
    format!("`{}`", shown(text))
}
