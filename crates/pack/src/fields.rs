//! Reads a JSON object field by field: strictly, exactly, and reporting all problems at once.
//!
//! Owns the error texts for wrong fields. A derived deserializer stops at the first mistake and cannot name the field.
//! Here, each unknown field, wrong type and missing value becomes one named problem. Values stay raw text until they
//! are read, so numbers keep their digits.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use windlass_core::budget::{Amount, BadAmount};
use windlass_core::input::shown;
use windlass_core::store::Live;
use windlass_core::{Invalid, Time, duration};

/// JSON for [`windlass_core::store::CONFIGURED`]: resets a value to the configured one.
pub const CONFIGURED_JSON: &str = "\"configured\"";

pub struct Fields<'a> {
    entries: Vec<(String, &'a RawValue)>,
    known: Vec<&'static str>,
    /// Prefix of field names in problems: `[3].`, `filter.`.
    within: String,
    invalid: Invalid,
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// Why a text could not be read at all.
#[derive(Debug)]
pub enum Unreadable {
    Syntax(serde_json::Error),
    /// JSON, but not an object: `a number`.
    NotAnObject(&'static str),
}

impl<'a> Fields<'a> {
    pub fn read(text: &'a [u8], within: impl Into<String>) -> Result<Fields<'a>, Unreadable> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let read = reader.deserialize_map(Entries).and_then(|entries| reader.end().map(|()| entries));
        let entries = read.map_err(|error| match error.is_data() {
            true => Unreadable::NotAnObject(sort(text)),
            false => Unreadable::Syntax(error),
        })?;
        let mut fields =
            Fields { entries, known: Vec::new(), within: within.into(), invalid: Invalid::default() };
        fields.refuse_repeated();
        Ok(fields)
    }

    fn refuse_repeated(&mut self) {
        let mut names: Vec<&str> = self.entries.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let twice: Vec<String> =
            names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| shown(pair[0])).collect();
        for name in twice {
            self.refuse(&name, "is given twice");
        }
    }

    pub fn refuse(&mut self, field: &str, rule: impl Into<String>) {
        self.invalid.add(format!("{}{field}", self.within), rule);
    }

    /// Prefix of field names.
    pub fn within(&self) -> &str {
        &self.within
    }

    pub fn is_refused(&self, field: &str) -> bool {
        let name = format!("{}{field}", self.within);
        self.invalid.problems.iter().any(|problem| problem.field == name)
    }

    /// The value as written; `null` counts as a value.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.known.push(name);
        let place = self.entries.iter().position(|(known, _)| known == name)?;
        Some(self.entries.swap_remove(place).1)
    }

    /// `null` counts as missing.
    fn value(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.raw(name).filter(|value| value.get() != "null")
    }

    fn typed<T>(&mut self, name: &'static str, wanted: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = self.value(name)?;
        let read = read(value.get());
        if read.is_none() {
            let sort = match sort(value.get().as_bytes()) {
                "a number" if wanted.contains("number") => "a number of another form",
                "text" if wanted.starts_with("text") => "text of another form",
                "a list" if wanted.contains("list of texts") => "a list with something else in it",
                "a list" if wanted.contains("list of numbers") => "a list with something else in it",
                sort => sort,
            };
            self.refuse(name, format!("must be {wanted}, not {sort}"));
        }
        read
    }

    pub fn text(&mut self, name: &'static str) -> Option<String> {
        let text: String = self.typed(name, "text", |text| serde_json::from_str(text).ok())?;
        self.storable(name, &[text.as_str()]).then_some(text)
    }

    /// Postgres cannot store NUL in text, so it is refused for both databases.
    fn storable(&mut self, name: &'static str, texts: &[&str]) -> bool {
        let storable = !texts.iter().any(|text| text.contains('\0'));
        if !storable {
            self.refuse(name, "must not contain NUL (\\u0000)");
        }
        storable
    }

    pub fn required_text(&mut self, name: &'static str) -> String {
        let text = self.text(name);
        if text.is_none() && !self.is_refused(name) {
            self.refuse(name, "is required");
        }
        text.unwrap_or_default()
    }

    pub fn integer(&mut self, name: &'static str) -> Option<i64> {
        self.typed(name, "a whole number", |text| text.parse().ok())
    }

    /// A budget's limit: `null` removes it, `"configured"` resets it, anything else is read by `value`.
    pub fn live<T: Copy>(
        &mut self,
        name: &'static str,
        value: impl FnOnce(&mut Self, &'static str) -> Option<T>,
    ) -> Option<Live<Option<T>>> {
        let entry = self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value.get());
        let live = match entry {
            Some("null") => Live::Set(None),
            Some(CONFIGURED_JSON) => Live::Configured,
            _ => return value(self, name).map(|value| Live::Set(Some(value))),
        };
        self.raw(name);
        Some(live)
    }

    /// Money as text or number. The digits are read as written.
    pub fn amount(&mut self, name: &'static str) -> Option<Amount> {
        let text = self.typed(name, "an amount such as 750.00", |text| match text.starts_with('"') {
            true => serde_json::from_str(text).ok(),
            false => text.starts_with(|c: char| c.is_ascii_digit() || c == '-').then(|| text.to_owned()),
        })?;
        text.parse().map_err(|error: BadAmount| self.refuse(name, error.to_string())).ok()
    }

    pub fn numbers(&mut self, name: &'static str) -> Option<Vec<f32>> {
        self.typed(name, "a list of numbers", |text| serde_json::from_str(text).ok())
    }

    pub fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.typed(name, "true or false", |text| text.parse().ok())
    }

    pub fn texts(&mut self, name: &'static str) -> Vec<String> {
        let texts = self.typed(name, "a list of texts", |text| serde_json::from_str(text).ok());
        self.all_storable(name, texts.unwrap_or_default())
    }

    /// A text or a list of texts.
    pub fn one_or_more(&mut self, name: &'static str) -> Vec<String> {
        let read = |text: &str| match text.starts_with('"') {
            true => serde_json::from_str(text).ok().map(|one| vec![one]),
            false => serde_json::from_str(text).ok(),
        };
        let texts = self.typed(name, "text or a list of texts", read).unwrap_or_default();
        self.all_storable(name, texts)
    }

    fn all_storable(&mut self, name: &'static str, texts: Vec<String>) -> Vec<String> {
        let each: Vec<&str> = texts.iter().map(String::as_str).collect();
        if self.storable(name, &each) { texts } else { Vec::new() }
    }

    /// A text that `read` parses; its error becomes the rule.
    pub fn parsed<T, E: fmt::Display>(
        &mut self,
        name: &'static str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(name, error.to_string());
                None
            }
        }
    }

    pub fn time(&mut self, name: &'static str) -> Option<Time> {
        self.parsed(name, str::parse::<Time>)
    }

    pub fn duration(&mut self, name: &'static str) -> Option<std::time::Duration> {
        self.parsed(name, duration::parse)
    }

    /// All problems, including unknown fields.
    pub fn end(mut self) -> Result<(), Invalid> {
        let known = self.known.join(", ");
        for (name, _) in std::mem::take(&mut self.entries) {
            if !self.known.contains(&name.as_str()) {
                self.refuse(&shown(&name), format!("is not a field here; known: {known}"));
            }
        }
        self.invalid.into_result()
    }
}

/// The type of a value, for error messages.
pub(crate) fn sort(text: &[u8]) -> &'static str {
    match text.trim_ascii_start().first() {
        Some(b'"') => "text",
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        Some(b'-' | b'0'..=b'9') => "a number",
        _ => "that",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let mut fields = Fields::read(text.as_bytes(), "job.").unwrap();
        let _ = (fields.required_text("kind"), fields.integer("priority"), fields.texts("tags"));
        let invalid = fields.end().err().unwrap_or_default();
        invalid.problems.into_iter().map(|problem| format!("{} {}", problem.field, problem.rule)).collect()
    }

    #[test]
    fn every_problem_has_its_field() {
        assert!(problems(r#"{"kind":"A","priority":3,"tags":["x"]}"#).is_empty());
        assert!(problems(r#"{"kind":"A","priority":null}"#).is_empty());
        assert_eq!(
            problems(r#"{"prio":1,"priority":1.5,"tags":[1]}"#),
            [
                "job.kind is required",
                "job.priority must be a whole number, not a number of another form",
                "job.tags must be a list of texts, not a list with something else in it",
                "job.prio is not a field here; known: kind, priority, tags",
            ]
        );
        assert_eq!(problems(r#"{"kind":"A","kind":"B"}"#), ["job.kind is given twice"]);
        assert_eq!(
            problems(r#"{"kind":"A\u0000","tags":["x","\u0000"]}"#),
            ["job.kind must not contain NUL (\\u0000)", "job.tags must not contain NUL (\\u0000)"]
        );
    }

    #[test]
    fn other_json_than_an_object_is_reported() {
        assert!(matches!(Fields::read(b"7", ""), Err(Unreadable::NotAnObject(_))));
        assert!(matches!(Fields::read(b"{\"a\":", ""), Err(Unreadable::Syntax(_))));
        assert!(matches!(Fields::read(b"{} x", ""), Err(Unreadable::Syntax(_))));
    }
}
