//! Configuration as written: every value with its place, every problem collected.
//!
//! Owns reading the file, the variables and the flags into one map, later sources over earlier ones. Never judges
//! how values fit together: [`super::Config`] does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use windlass_core::budget::{Amount, BadAmount};
use windlass_core::rate::BadRate;
use windlass_core::{Invalid, Rate, duration, input};

use super::keys::{self, Key, Section, Shape};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
    Count(u64),
    Money(Amount),
    Duration(Duration),
    Rate(Rate),
    Nothing,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Flag(flag) => flag.fmt(f),
            Value::Count(count) => count.fmt(f),
            Value::Money(amount) => amount.fmt(f),
            Value::Duration(value) => f.write_str(&duration::format(*value)),
            Value::Rate(rate) => rate.fmt(f),
            Value::Nothing => f.write_str("none"),
        }
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { file: String, line: usize },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { file, line } => write!(f, "{file}:{line}"),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Origin,
    pub(crate) text: String,
}

/// Section, name of the queue or kind, key.
type Address = (Section, Option<String>, &'static str);

#[derive(Debug, Default)]
pub(crate) struct RawConfig {
    entries: BTreeMap<Address, (Value, Origin)>,
    /// Sections with a name and nothing in them.
    empty: Vec<(Section, String, Origin)>,
    pub(crate) problems: Vec<Problem>,
}

impl RawConfig {
    pub(crate) fn get(
        &self,
        section: Section,
        name: Option<&str>,
        key: &'static str,
    ) -> Option<&(Value, Origin)> {
        self.entries.get(&(section, name.map(str::to_owned), key))
    }

    /// Names of queues or kinds that anything was said about.
    pub(crate) fn names(&self, section: Section) -> Vec<String> {
        let mut names: Vec<String> =
            self.entries.keys().filter(|at| at.0 == section).filter_map(|at| at.1.clone()).collect();
        names.dedup();
        names
    }

    /// Whoever wrote the name of a section meant something by it. Judged when everything was read: a variable may say the
    /// rest.
    pub(crate) fn refuse_empty(&mut self) {
        for (section, name, place) in std::mem::take(&mut self.empty) {
            if self.names(section).iter().any(|said| said.eq_ignore_ascii_case(&name)) {
                continue;
            }
            let needed = match section {
                Section::Budget => "limit or tokens is needed",
                Section::Kind => "a kind this binary does not carry needs `queue`",
                _ => "give it a key or leave it out",
            };
            let path = format!("{}.{}", section.word(), input::shown(&name));
            self.problem(place, format!("{path}: the section is empty; {needed}"));
        }
    }

    pub(crate) fn problem(&mut self, place: Origin, text: impl Into<String>) {
        self.problems.push(Problem { place, text: text.into() });
    }

    /// A value that came as text.
    pub(crate) fn set_text(&mut self, key: &'static Key, name: Option<String>, text: &str, origin: Origin) {
        let value = parse(key.shape, text);
        self.set(key, name, value, origin);
    }

    fn set(&mut self, key: &'static Key, name: Option<String>, value: Result<Value, String>, origin: Origin) {
        let name = name.map(|name| self.canonical(key.section, name));
        match value {
            Ok(value) => {
                self.entries.insert((key.section, name, key.name), (value, origin));
            }
            Err(why) => {
                let path = match name {
                    Some(name) => format!("{}.{}.{}", key.section.word(), input::shown(&name), key.name),
                    None => key.path(),
                };
                self.problem(origin, format!("{path}: {why}"));
            }
        }
    }

    /// `high` means HIGH; a name seen before keeps its first spelling.
    fn canonical(&self, section: Section, name: String) -> String {
        let families = super::default_queues();
        let known = families.iter().map(|family| &family.name).filter(|_| section == Section::Queue);
        let seen = self.entries.keys().filter(|at| at.0 == section).filter_map(|at| at.1.as_ref());
        let same = known.chain(seen).find(|known| known.eq_ignore_ascii_case(&name));
        same.cloned().unwrap_or(name)
    }

    /// One `WINDLASS_SECTION__KEY`; `path` is its lower-case rest.
    pub(crate) fn read_variable(&mut self, variable: &str, path: &str, value: &OsString) {
        let origin = Origin::Variable(variable.to_owned());
        let parts: Vec<&str> = path.split("__").collect();
        let Some(section) = parts.first().and_then(|word| section_of(word)) else {
            return self.unknown_section(origin, parts.first().copied().unwrap_or_default());
        };
        let (name, key) = match (section.placeholder(), parts.as_slice()) {
            (None, [_, key]) => (None, *key),
            (Some(_), [_, name, key]) if !name.is_empty() => (Some(in_variable(section, name)), *key),
            (None, _) => return self.problem(origin, "has too many parts; write WINDLASS_SECTION__KEY"),
            (Some(_), _) => {
                let word = section.word().to_uppercase();
                return self.problem(origin, format!("write WINDLASS_{word}__NAME__KEY"));
            }
        };
        let Some(text) = value.to_str() else { return self.problem(origin, "is not UTF-8") };
        if let Some(key) = keys::find(section, key) {
            return self.set_text(key, name, text, origin);
        }
        match key.strip_suffix("_file").and_then(|key| keys::find(section, key)) {
            Some(key) => match std::fs::read_to_string(Path::new(text)) {
                Ok(content) => self.set_text(key, name, content.trim_end_matches(['\r', '\n']), origin),
                Err(error) => self.problem(origin, format!("cannot read the file it names: {error}")),
            },
            None => self.unknown_key(origin, section, name.as_deref(), key),
        }
    }

    /// The whole file; `file` is its name in messages.
    pub(crate) fn read_file(&mut self, file: &str, text: &str) {
        let place = |at: usize| Origin::File { file: file.to_owned(), line: line_of(text, at) };
        let document = match toml_edit::Document::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                return self.problem(place(at), format!("is not TOML: {}", error.message().trim()));
            }
        };
        let root = document.as_table();
        for (word, item) in root.iter() {
            let at = place(start(root, word, item));
            let Some(section) = section_of(word) else {
                self.unknown_section(at, word);
                continue;
            };
            let Some(table) = item.as_table_like() else {
                self.problem(at, format!("{word} is a section; write it as [{}]", header(section)));
                continue;
            };
            if section.placeholder().is_none() {
                self.read_table(section, None, table, &place);
                continue;
            }
            for (name, item) in table.iter() {
                match item.as_table_like() {
                    Some(inner) if inner.is_empty() => {
                        self.empty.push((section, name.to_owned(), place(start(table, name, item))));
                    }
                    Some(inner) => self.read_table(section, Some(name), inner, &place),
                    None => {
                        let at = place(start(table, name, item));
                        let text = format!(
                            "{word}.{} needs a name before its key: [{}]",
                            input::shown(name),
                            header(section)
                        );
                        self.problem(at, text);
                    }
                }
            }
        }
    }

    fn read_table(
        &mut self,
        section: Section,
        name: Option<&str>,
        table: &dyn toml_edit::TableLike,
        place: &dyn Fn(usize) -> Origin,
    ) {
        for (word, item) in table.iter() {
            let origin = place(start(table, word, item));
            match keys::find(section, word) {
                Some(key) => {
                    let value = from_toml(key.shape, item);
                    self.set(key, name.map(str::to_owned), value, origin);
                }
                None => self.unknown_key(origin, section, name, word),
            }
        }
    }

    fn unknown_section(&mut self, origin: Origin, word: &str) {
        let words = Section::ALL.map(Section::word);
        let meant = keys::nearest(word, words.into_iter());
        let word = input::shown(word);
        self.problem(
            origin,
            match meant {
                Some(meant) => format!("`{word}` is not a section; did you mean `{meant}`?"),
                None => format!("`{word}` is not a section; known: {}", words.join(", ")),
            },
        );
    }

    fn unknown_key(&mut self, origin: Origin, section: Section, name: Option<&str>, word: &str) {
        let names = || keys::in_section(section).map(|key| key.name);
        let within = match name {
            Some(name) => format!("{}.{}", section.word(), input::shown(name)),
            None => section.word().to_owned(),
        };
        let meant = keys::nearest(word, names());
        let word = input::shown(word);
        self.problem(
            origin,
            match meant {
                Some(meant) => format!("`{word}` is not a key of {within}; did you mean `{meant}`?"),
                None => {
                    format!(
                        "`{word}` is not a key of {within}; known: {}",
                        names().collect::<Vec<_>>().join(", ")
                    )
                }
            },
        );
    }
}

/// Variables have no case of their own: budgets are spelled small, everything else in capitals.
fn in_variable(section: Section, name: &str) -> String {
    match section {
        Section::Budget => name.to_lowercase(),
        _ => name.to_uppercase(),
    }
}

fn section_of(word: &str) -> Option<Section> {
    Section::ALL.into_iter().find(|section| section.word() == word)
}

fn header(section: Section) -> String {
    match section.placeholder() {
        Some(hole) => format!("{}.{hole}", section.word()),
        None => section.word().to_owned(),
    }
}

fn start(table: &dyn toml_edit::TableLike, word: &str, item: &toml_edit::Item) -> usize {
    let key = table.key(word).and_then(|key| key.span());
    key.or_else(|| item.span()).map_or(0, |span| span.start)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn from_toml(shape: Shape, item: &toml_edit::Item) -> Result<Value, String> {
    if let Some(text) = item.as_str() {
        return match shape {
            Shape::Flag => Err("must be true or false, without quotes".to_owned()),
            Shape::Count { .. } => Err("must be a number, without quotes".to_owned()),
            _ => parse(shape, text),
        };
    }
    if let Some(number) = item.as_integer() {
        return match shape {
            Shape::Duration { .. } | Shape::DurationOrNone { .. } => {
                Err(format!("needs a unit: write \"{number}s\" or \"{number}ms\" in quotes"))
            }
            Shape::Text | Shape::NameOrNone => Err("must be text in quotes".to_owned()),
            Shape::RateOrNone => {
                Err(format!("needs a time: write \"{number}/s\" or \"{number}/m\" in quotes"))
            }
            _ => parse(shape, &number.to_string()),
        };
    }
    // Its shortest form is what was written, as far as money has digits.
    if let (Shape::Money, Some(number)) = (shape, item.as_float()) {
        return parse(shape, &number.to_string());
    }
    match (shape, item.as_bool()) {
        (Shape::Flag, Some(flag)) => Ok(Value::Flag(flag)),
        _ => Err(format!("must be a {shape}, not {}", article(item))),
    }
}

fn article(item: &toml_edit::Item) -> &'static str {
    match item.type_name() {
        "boolean" => "true or false",
        "float" => "a number with a fraction",
        "array" | "array of tables" => "a list",
        "datetime" => "a date",
        _ => "a section",
    }
}

/// A value from its text, whatever source it came from.
pub(crate) fn parse(shape: Shape, text: &str) -> Result<Value, String> {
    let none = text.trim().eq_ignore_ascii_case("none");
    match shape {
        Shape::Text if text.contains('\0') => Err("must not contain NUL".to_owned()),
        Shape::Text => Ok(Value::Text(text.to_owned())),
        Shape::Flag => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(Value::Flag(true)),
            "false" | "0" | "no" | "off" => Ok(Value::Flag(false)),
            _ => Err(format!("must be true or false, not `{}`", input::shown(text))),
        },
        Shape::Money => text.parse().map(Value::Money).map_err(|error: BadAmount| error.to_string()),
        Shape::CountOrNone { .. } | Shape::DurationOrNone { .. } | Shape::RateOrNone | Shape::NameOrNone
            if none =>
        {
            Ok(Value::Nothing)
        }
        Shape::RateOrNone => match text.parse() {
            Ok(rate) => Ok(Value::Rate(rate)),
            Err(error) => Err(BadRate::to_string(&error)),
        },
        Shape::NameOrNone => {
            let mut invalid = Invalid::default();
            invalid.check_name("resource", text.trim());
            match invalid.problems.pop() {
                Some(problem) => Err(problem.rule),
                None => Ok(Value::Text(text.trim().to_owned())),
            }
        }
        Shape::Count { min, max } | Shape::CountOrNone { min, max } => match text.trim().parse::<i128>() {
            Ok(count) if (i128::from(min)..=i128::from(max)).contains(&count) => {
                Ok(Value::Count(count as u64))
            }
            _ => Err(format!("must be a {shape}, not `{}`", input::shown(text))),
        },
        Shape::Duration { min_ms } | Shape::DurationOrNone { min_ms } => {
            let value = duration::parse(text).map_err(|error| error.to_string())?;
            if value < Duration::from_millis(min_ms) {
                let least = duration::format(Duration::from_millis(min_ms));
                return Err(format!("must be at least {least}, not `{}`", input::shown(text)));
            }
            Ok(Value::Duration(value))
        }
    }
}
