//! The scalar fields of documents in a compact form that filters can scan.
//!
//! Owns interned field names and short strings. Of a long string only the hash is kept: it can be compared for
//! equality, not for order.

use std::hash::{DefaultHasher, Hash, Hasher};

use foldhash::HashMap;
use serde_json::Value as Json;

use crate::number::Number;

const LONGEST_TEXT: usize = 128;
/// Further values of one document are ignored by filters.
const MOST_VALUES: usize = 256;
const DEEPEST: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Number(Number),
    Text(u32),
    Long(u64),
}

/// The values of one document, each with the number of its field.
pub(crate) type FieldRow = Box<[(u32, Value)]>;

#[derive(Default)]
pub(crate) struct Values {
    fields: Names,
    texts: Names,
}

#[derive(Default)]
struct Names {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Names {
    fn add(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.into(), number);
        self.names.push(name.into());
        number
    }
}

impl Values {
    /// Nested fields are named `outer.inner`; a list has one entry per element.
    pub(crate) fn row(&mut self, fields: &windlass_core::entity::Fields) -> FieldRow {
        let mut row = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            self.add(&mut row, name, value, 0);
        }
        row.truncate(MOST_VALUES);
        row.into_boxed_slice()
    }

    fn add(&mut self, row: &mut Vec<(u32, Value)>, name: &str, value: &Json, depth: usize) {
        if row.len() >= MOST_VALUES || depth > DEEPEST {
            return;
        }
        let scalar = match value {
            Json::Null => return,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(value) => match Number::of(value) {
                Some(number) => Value::Number(number),
                None => return,
            },
            Json::String(text) if text.len() > LONGEST_TEXT => Value::Long(hash(text)),
            Json::String(text) => Value::Text(self.texts.add(text)),
            Json::Array(values) => {
                for value in values {
                    self.add(row, name, value, depth + 1);
                }
                return;
            }
            Json::Object(fields) => {
                for (inner, value) in fields {
                    self.add(row, &format!("{name}.{inner}"), value, depth + 1);
                }
                return;
            }
        };
        let field = self.fields.add(name);
        row.push((field, scalar));
    }

    /// `None` when no document has the field.
    pub(crate) fn field(&self, name: &str) -> Option<u32> {
        self.fields.numbers.get(name).copied()
    }

    /// The interned value; `None` when no document has it.
    pub(crate) fn find(&self, value: &Json) -> Option<Value> {
        match value {
            Json::Bool(value) => Some(Value::Bool(*value)),
            Json::Number(value) => Number::of(value).map(Value::Number),
            Json::String(text) if text.len() > LONGEST_TEXT => Some(Value::Long(hash(text))),
            Json::String(text) => self.texts.numbers.get(text.as_str()).copied().map(Value::Text),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        }
    }

    pub(crate) fn text(&self, number: u32) -> &str {
        self.texts.names.get(number as usize).map_or("", |text| text)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
