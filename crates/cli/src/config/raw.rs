//! The configuration as written: every value with its origin, and all problems.
//!
//! Reads the file, the variables and the options into one map; later sources override earlier ones. [`super::Config`]
//! checks how values fit together.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use windlass_core::input;

use windlass_pack::settings::{Form, Section, Setting, SettingValue as Value, Settings};

use super::keys::{self, BUDGET, KIND, Keys, PACKS, QUEUE};

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

/// A problem and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Origin,
    pub(crate) text: String,
}

/// Section, name of the queue or kind, key.
type Address = (Section, Option<String>, &'static str);

#[derive(Debug, Default)]
pub(crate) struct RawConfig {
    pub(crate) keys: Keys,
    /// As registered; `high` means HIGH.
    queues: Vec<String>,
    entries: BTreeMap<Address, (Value, Origin)>,
    /// Named sections without keys.
    empty: Vec<(Section, String, Origin)>,
    pub(crate) problems: Vec<Problem>,
}

impl RawConfig {
    pub(crate) fn new(keys: Keys, queues: Vec<String>) -> RawConfig {
        RawConfig { keys, queues, ..RawConfig::default() }
    }

    /// Configured values of the parts' keys.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.keys.iter().cloned().collect());
        for ((section, name, key), (value, _)) in &self.entries {
            settings.set(*section, name.as_deref(), key, value.clone());
        }
        settings
    }

    /// The origin of the key with this path, or of another key in its section.
    pub(crate) fn place_of(&self, path: &str) -> Origin {
        let path_of = |at: &Address| match &at.1 {
            Some(name) => format!("{}.{name}.{}", at.0.word, at.2),
            None => format!("{}.{}", at.0.word, at.2),
        };
        let exact = self.entries.iter().find(|(at, _)| path_of(at) == path);
        let near = || {
            let (within, _) = path.rsplit_once('.')?;
            self.entries
                .iter()
                .find(|(at, _)| path_of(at).rsplit_once('.').is_some_and(|(of, _)| of == within))
        };
        exact.or_else(near).map_or(Origin::Default, |(_, (_, origin))| origin.clone())
    }

    pub(crate) fn get(
        &self,
        section: Section,
        name: Option<&str>,
        key: &'static str,
    ) -> Option<&(Value, Origin)> {
        self.entries.get(&(section, name.map(str::to_owned), key))
    }

    /// Configured names of queues or kinds.
    pub(crate) fn names(&self, section: Section) -> Vec<String> {
        let mut names: Vec<String> =
            self.entries.keys().filter(|at| at.0 == section).filter_map(|at| at.1.clone()).collect();
        names.dedup();
        names
    }

    /// An empty section is a mistake. Checked after everything was read, because a variable may fill it.
    pub(crate) fn refuse_empty(&mut self) {
        for (section, name, place) in std::mem::take(&mut self.empty) {
            if self.names(section).iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                continue;
            }
            let needed = match section {
                BUDGET => "limit or tokens is needed",
                KIND => "a kind this binary does not carry needs `queue`",
                _ => "give it a key or leave it out",
            };
            let path = format!("{}.{}", section.word, input::shown(&name));
            self.problem(place, format!("{path}: the section is empty; {needed}"));
        }
    }

    pub(crate) fn problem(&mut self, place: Origin, text: impl Into<String>) {
        self.problems.push(Problem { place, text: text.into() });
    }

    /// Parses a value from text.
    pub(crate) fn set_text(&mut self, key: &Setting, name: Option<String>, text: &str, origin: Origin) {
        self.set(key, name, key.read(text), origin);
    }

    fn set(&mut self, key: &Setting, name: Option<String>, value: Result<Value, String>, origin: Origin) {
        let name = name.map(|name| self.canonical(key.section, name));
        match value {
            Ok(value) => {
                self.entries.insert((key.section, name, key.name), (value, origin));
            }
            Err(why) => {
                let path = match name {
                    Some(name) => format!("{}.{}.{}", key.section.word, input::shown(&name), key.name),
                    None => key.path(),
                };
                self.problem(origin, format!("{path}: {why}"));
            }
        }
    }

    /// `high` means HIGH; otherwise the first spelling is kept.
    fn canonical(&self, section: Section, name: String) -> String {
        let known = self.queues.iter().filter(|_| section == QUEUE);
        let seen = self.entries.keys().filter(|at| at.0 == section).filter_map(|at| at.1.as_ref());
        let same = known.chain(seen).find(|known| known.eq_ignore_ascii_case(&name));
        same.cloned().unwrap_or(name)
    }

    /// One `WINDLASS_SECTION__KEY`; `path` is the lower-case rest.
    pub(crate) fn read_variable(&mut self, variable: &str, path: &str, value: &OsString) {
        let origin = Origin::Variable(variable.to_owned());
        let mut parts: Vec<&str> = path.split("__").collect();
        let of_pack = parts.get(1).map(|pack| format!("{PACKS}.{pack}"));
        if let (Some(&PACKS), Some(word)) = (parts.first(), &of_pack) {
            parts.splice(0..2, [word.as_str()]);
        }
        let Some(section) = parts.first().and_then(|word| self.keys.section(word)) else {
            return self.unknown_section(origin, parts.first().copied().unwrap_or_default());
        };
        let (name, key) = match (section.named, parts.as_slice()) {
            (None, [_, key]) => (None, *key),
            (Some(_), [_, name, key]) if !name.is_empty() => (Some(in_variable(section, name)), *key),
            (None, _) => return self.problem(origin, "has too many parts; write WINDLASS_SECTION__KEY"),
            (Some(_), _) => {
                let word = section.word.to_uppercase();
                return self.problem(origin, format!("write WINDLASS_{word}__NAME__KEY"));
            }
        };
        let Some(text) = value.to_str() else { return self.problem(origin, "is not UTF-8") };
        if let Some(key) = self.keys.find(section, key).cloned() {
            return self.set_text(&key, name, text, origin);
        }
        match key.strip_suffix("_file").and_then(|key| self.keys.find(section, key)).cloned() {
            Some(key) => match std::fs::read_to_string(Path::new(text)) {
                Ok(content) => self.set_text(&key, name, content.trim_end_matches(['\r', '\n']), origin),
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
            if let (PACKS, Some(packs)) = (word, item.as_table_like()) {
                self.read_packs(packs, &place);
                continue;
            }
            let Some(section) = self.keys.section(word) else {
                self.unknown_section(at, word);
                continue;
            };
            let Some(table) = item.as_table_like() else {
                self.problem(at, format!("{word} is a section; write it as [{}]", header(section)));
                continue;
            };
            if section.named.is_none() {
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

    /// `[packs.<name>]`: one section per part.
    fn read_packs(&mut self, packs: &dyn toml_edit::TableLike, place: &dyn Fn(usize) -> Origin) {
        for (name, item) in packs.iter() {
            let at = place(start(packs, name, item));
            let word = format!("{PACKS}.{name}");
            match (self.keys.section(&word), item.as_table_like()) {
                (Some(section), Some(table)) => self.read_table(section, None, table, place),
                (Some(_), None) => self.problem(at, format!("{word} is a section; write it as [{word}]")),
                (None, _) => self.unknown_section(at, &word),
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
            match self.keys.find(section, word).cloned() {
                Some(key) => {
                    let value = from_toml(key.form, item).and_then(|value| key.accept(value));
                    self.set(&key, name.map(str::to_owned), value, origin);
                }
                None => self.unknown_key(origin, section, name, word),
            }
        }
    }

    fn unknown_section(&mut self, origin: Origin, word: &str) {
        let words: Vec<&str> = self.keys.sections().iter().map(|section| section.word).collect();
        let meant = keys::nearest(word, words.iter().copied());
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
        let known: Vec<&'static str> = self.keys.in_section(section).map(|key| key.name).collect();
        let names = || known.iter().copied();
        let within = match name {
            Some(name) => format!("{}.{}", section.word, input::shown(name)),
            None => section.word.to_owned(),
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

/// Variables have no case, so the section determines the case of names.
fn in_variable(section: Section, name: &str) -> String {
    if section.small { name.to_lowercase() } else { name.to_uppercase() }
}

fn header(section: Section) -> String {
    match section.named {
        Some(hole) => format!("{}.{hole}", section.word),
        None => section.word.to_owned(),
    }
}

fn start(table: &dyn toml_edit::TableLike, word: &str, item: &toml_edit::Item) -> usize {
    let key = table.key(word).and_then(|key| key.span());
    key.or_else(|| item.span()).map_or(0, |span| span.start)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn from_toml(form: Form, item: &toml_edit::Item) -> Result<Value, String> {
    if let Some(text) = item.as_str() {
        return match form {
            Form::Flag => Err("must be true or false, without quotes".to_owned()),
            Form::Count { .. } => Err("must be a number, without quotes".to_owned()),
            _ => form.parse(text),
        };
    }
    if let Some(number) = item.as_integer() {
        return match form {
            Form::Duration { .. } | Form::DurationOrNone { .. } => {
                Err(format!("needs a unit: write \"{number}s\" or \"{number}ms\" in quotes"))
            }
            Form::Text | Form::NameOrNone => Err("must be text in quotes".to_owned()),
            Form::RateOrNone => {
                Err(format!("needs a time: write \"{number}/s\" or \"{number}/m\" in quotes"))
            }
            _ => form.parse(&number.to_string()),
        };
    }
    // The shortest form of the float is what was written, within the precision of money.
    if let (Form::Money, Some(number)) = (form, item.as_float()) {
        return form.parse(&number.to_string());
    }
    match (form, item.as_bool()) {
        (Form::Flag, Some(flag)) => Ok(Value::Flag(flag)),
        _ => Err(format!("must be a {form}, not {}", article(item))),
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
