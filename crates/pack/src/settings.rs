//! Configuration keys declared by parts, and their values in this process.
//!
//! Owns names, formats and defaults. The command line reads files and variables; a program that embeds the library sets
//! values itself.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use windlass_core::budget::{Amount, BadAmount};
use windlass_core::rate::BadRate;
use windlass_core::{Invalid, Rate, duration, input};

/// A section of the file: `[server]`, `[queues.<name>]`, `[packs.guestbook]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Section {
    /// `server`, `queues`, `packs.guestbook`.
    pub word: &'static str,
    /// The placeholder between word and key, if any: `<name>`.
    pub named: Option<&'static str>,
    /// A name for the placeholder in the output of `config init`.
    pub example: &'static str,
    /// One or two lines above the section there.
    pub about: &'static str,
    /// Names are lower case, otherwise upper case. Needed because environment variables have no case of their own.
    pub small: bool,
}

impl Section {
    pub const fn plain(word: &'static str) -> Section {
        Section { word, named: None, example: "", about: "", small: false }
    }

    pub const fn named(word: &'static str, hole: &'static str, example: &'static str) -> Section {
        Section { word, named: Some(hole), example, about: "", small: false }
    }

    /// Names in this section are lower case.
    pub const fn small(mut self) -> Section {
        self.small = true;
        self
    }

    pub const fn about(mut self, about: &'static str) -> Section {
        self.about = about;
        self
    }
}

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Flag,
    Count { min: u64, max: u64 },
    CountOrNone { min: u64, max: u64 },
    Money,
    Duration { min_ms: u64 },
    DurationOrNone { min_ms: u64 },
    RateOrNone,
    NameOrNone,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Text => f.write_str("text"),
            Form::Flag => f.write_str("true or false"),
            Form::Count { min, max } => write!(f, "number {min}–{max}"),
            Form::CountOrNone { min, max } => write!(f, "number {min}–{max} or `none`"),
            Form::Money => f.write_str("sum of money"),
            Form::Duration { .. } => f.write_str("duration"),
            Form::DurationOrNone { .. } => f.write_str("duration or `none`"),
            Form::RateOrNone => f.write_str("rate or `none`"),
            Form::NameOrNone => f.write_str("name or `none`"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    Text(String),
    Flag(bool),
    Count(u64),
    Money(Amount),
    Duration(Duration),
    Rate(Rate),
    Nothing,
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Text(text) => f.write_str(text),
            SettingValue::Flag(flag) => flag.fmt(f),
            SettingValue::Count(count) => count.fmt(f),
            SettingValue::Money(amount) => amount.fmt(f),
            SettingValue::Duration(value) => f.write_str(&duration::format(*value)),
            SettingValue::Rate(rate) => rate.fmt(f),
            SettingValue::Nothing => f.write_str("none"),
        }
    }
}

impl Form {
    /// Parses a value from any source.
    pub fn parse(self, text: &str) -> Result<SettingValue, String> {
        let none = text.trim().eq_ignore_ascii_case("none");
        match self {
            Form::Text if text.contains('\0') => Err("must not contain NUL".to_owned()),
            Form::Text => Ok(SettingValue::Text(text.to_owned())),
            Form::Flag => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(SettingValue::Flag(true)),
                "false" | "0" | "no" | "off" => Ok(SettingValue::Flag(false)),
                _ => Err(format!("must be true or false, not `{}`", input::shown(text))),
            },
            Form::Money => {
                text.parse().map(SettingValue::Money).map_err(|error: BadAmount| error.to_string())
            }
            Form::CountOrNone { .. } | Form::DurationOrNone { .. } | Form::RateOrNone | Form::NameOrNone
                if none =>
            {
                Ok(SettingValue::Nothing)
            }
            Form::RateOrNone => {
                text.parse().map(SettingValue::Rate).map_err(|error: BadRate| error.to_string())
            }
            Form::NameOrNone => {
                let mut invalid = Invalid::default();
                invalid.check_name("resource", text.trim());
                match invalid.problems.pop() {
                    Some(problem) => Err(problem.rule),
                    None => Ok(SettingValue::Text(text.trim().to_owned())),
                }
            }
            Form::Count { min, max } | Form::CountOrNone { min, max } => match text.trim().parse::<i128>() {
                Ok(count) if (i128::from(min)..=i128::from(max)).contains(&count) => {
                    Ok(SettingValue::Count(count as u64))
                }
                _ => Err(format!("must be a {self}, not `{}`", input::shown(text))),
            },
            Form::Duration { min_ms } | Form::DurationOrNone { min_ms } => {
                let value = duration::parse(text).map_err(|error| error.to_string())?;
                if value < Duration::from_millis(min_ms) {
                    let least = duration::format(Duration::from_millis(min_ms));
                    return Err(format!("must be at least {least}, not `{}`", input::shown(text)));
                }
                Ok(SettingValue::Duration(value))
            }
        }
    }
}

/// Checks a value; `Err` is the rule that was violated.
pub type Judge = fn(&SettingValue) -> Result<(), String>;

#[derive(Clone, Debug)]
pub struct Setting {
    pub section: Section,
    pub name: &'static str,
    pub form: Form,
    /// For people. Text that the form cannot parse, such as `none: no backups are made`, means that there is no default
    /// value.
    pub default: &'static str,
    pub about: &'static str,
    /// A valid value, if the default is not one.
    pub example: Option<&'static str>,
    /// A check beyond the form.
    pub check: Option<Judge>,
}

impl Setting {
    pub const fn new(
        section: Section,
        name: &'static str,
        form: Form,
        default: &'static str,
        about: &'static str,
    ) -> Setting {
        Setting { section, name, form, default, about, example: None, check: None }
    }

    /// `Err` is the rule that was violated.
    pub const fn checked(mut self, check: Judge) -> Setting {
        self.check = Some(check);
        self
    }

    pub const fn example(mut self, example: &'static str) -> Setting {
        self.example = Some(example);
        self
    }

    /// Parses and checks a value.
    pub fn read(&self, text: &str) -> Result<SettingValue, String> {
        self.accept(self.form.parse(text)?)
    }

    pub fn accept(&self, value: SettingValue) -> Result<SettingValue, String> {
        match self.check {
            Some(check) => check(&value).map(|()| value),
            None => Ok(value),
        }
    }

    /// `server.lease`, `queues.<name>.sla`.
    pub fn path(&self) -> String {
        match self.section.named {
            Some(hole) => format!("{}.{hole}.{}", self.section.word, self.name),
            None => format!("{}.{}", self.section.word, self.name),
        }
    }
}

/// The values of this process.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    known: Vec<Setting>,
    values: BTreeMap<(&'static str, Option<String>, &'static str), SettingValue>,
}

impl Settings {
    pub fn new(known: Vec<Setting>) -> Settings {
        Settings { known, values: BTreeMap::new() }
    }

    /// Overrides the default of a declared key.
    pub fn set(&mut self, section: Section, name: Option<&str>, key: &'static str, value: SettingValue) {
        self.values.insert((section.word, name.map(str::to_owned), key), value);
    }

    /// Sets a key by its path, such as `packs.guestbook.most` or `entities.product.text`. `Err` is the rule that was
    /// violated.
    pub fn set_path(&mut self, path: &str, text: &str) -> Result<(), String> {
        let fits = |key: &Setting| match key.section.named {
            None => (path == key.path()).then_some(None),
            Some(_) => {
                let inner = path.strip_prefix(key.section.word)?.strip_prefix('.')?;
                let name = inner.strip_suffix(key.name)?.strip_suffix('.')?;
                Some(Some(name.to_owned()))
            }
        };
        let found = self.known.iter().find_map(|key| fits(key).map(|name| (key.clone(), name)));
        let (key, name) = found.ok_or("is not a key of any part")?;
        let value = key.read(text)?;
        self.set(key.section, name.as_deref(), key.name, value);
        Ok(())
    }

    /// The configured value, without the default.
    pub fn configured(
        &self,
        section: Section,
        name: Option<&str>,
        key: &'static str,
    ) -> Option<&SettingValue> {
        self.values.get(&(section.word, name.map(str::to_owned), key))
    }

    /// Names configured in a section with names.
    pub fn names(&self, section: Section) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.values.keys().filter(|at| at.0 == section.word).filter_map(|at| at.1.as_deref()).collect();
        names.dedup();
        names
    }

    /// The configured value, else the default. `None` if the default is only a description.
    pub fn get(&self, section: Section, key: &'static str) -> Option<SettingValue> {
        if let Some(value) = self.configured(section, None, key) {
            return Some(value.clone());
        }
        let known = self.known.iter().find(|known| known.section == section && known.name == key)?;
        known.form.parse(known.default).ok()
    }

    pub fn text(&self, section: Section, key: &'static str) -> Option<String> {
        match self.get(section, key) {
            Some(SettingValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub fn count(&self, section: Section, key: &'static str) -> Option<u64> {
        match self.get(section, key) {
            Some(SettingValue::Count(count)) => Some(count),
            _ => None,
        }
    }

    pub fn flag(&self, section: Section, key: &'static str) -> bool {
        self.get(section, key) == Some(SettingValue::Flag(true))
    }

    pub fn duration(&self, section: Section, key: &'static str) -> Option<Duration> {
        match self.get(section, key) {
            Some(SettingValue::Duration(duration)) => Some(duration),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION: Section = Section::plain("packs.guestbook");

    fn even(value: &SettingValue) -> Result<(), String> {
        match value {
            SettingValue::Count(count) if count % 2 == 1 => Err("must be even".to_owned()),
            _ => Ok(()),
        }
    }

    #[test]
    fn defaults_apply_until_a_value_is_configured() {
        let count = Form::Count { min: 1, max: 9 };
        let key = Setting::new(SECTION, "most", count, "4", "").checked(even);
        assert_eq!(key.read("3").unwrap_err(), "must be even");
        assert!(key.read("0").unwrap_err().contains("number 1–9"));
        let mut settings = Settings::new(vec![key]);
        assert_eq!(settings.count(SECTION, "most"), Some(4));
        settings.set(SECTION, None, "most", SettingValue::Count(8));
        assert_eq!(settings.count(SECTION, "most"), Some(8));
    }

    #[test]
    fn a_descriptive_default_is_no_value() {
        let form = Form::Duration { min_ms: 1 };
        let key = Setting::new(SECTION, "alert_after", form, "twice the longest time", "");
        assert_eq!(Settings::new(vec![key]).duration(SECTION, "alert_after"), None);
    }
}
