//! The indexed text of an entity, and a hash that tells whether a vector belongs to it.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Fields, TypeSpec};

pub type ContentHash = [u8; 32];

/// A piece of text and its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    pub field: &'a str,
    pub text: &'a str,
    pub weight: u32,
}

/// The searched text in the order of the type's fields. A list of strings gives one part per string.
pub fn parts<'a>(spec: &'a TypeSpec, fields: &'a Fields) -> Vec<Part<'a>> {
    let mut all = Vec::new();
    if spec.text.is_empty() {
        for (name, value) in fields {
            add(&mut all, name, value, 1);
        }
        return all;
    }
    for field in &spec.text {
        if let Some(value) = fields.get(&field.name) {
            add(&mut all, &field.name, value, field.weight);
        }
    }
    all
}

fn add<'a>(all: &mut Vec<Part<'a>>, field: &'a str, value: &'a Value, weight: u32) {
    match value {
        Value::String(text) if !text.is_empty() => all.push(Part { field, text, weight }),
        Value::Array(values) => {
            let texts = values.iter().filter_map(Value::as_str).filter(|text| !text.is_empty());
            all.extend(texts.map(|text| Part { field, text, weight }));
        }
        _ => {}
    }
}

/// Covers only the text: changing a price does not change the content.
pub fn content_hash(parts: &[Part<'_>]) -> ContentHash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.weight.to_le_bytes());
        hash.update((part.text.len() as u64).to_le_bytes());
        hash.update(part.text.as_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        serde_json::from_str(json).unwrap()
    }

    fn hash(spec: &TypeSpec, json: &str) -> ContentHash {
        content_hash(&parts(spec, &fields(json)))
    }

    #[test]
    fn the_hash_covers_only_text() {
        let spec = TypeSpec::document();
        let one = hash(&spec, r#"{"title":"a","text":"b","price":1}"#);
        assert_eq!(one, hash(&spec, r#"{"price":2,"text":"b","title":"a"}"#));
        assert_ne!(one, hash(&spec, r#"{"title":"ab","text":""}"#), "the boundary between parts counts");
    }

    #[test]
    fn a_type_without_text_fields_searches_every_string() {
        let spec = TypeSpec::named("note");
        let fields = fields(r#"{"a":"x","n":3,"tags":["y",4,"z"],"deep":{"q":"hidden"}}"#);
        let texts: Vec<&str> = parts(&spec, &fields).iter().map(|part| part.text).collect();
        assert_eq!(texts, ["x", "y", "z"]);
    }
}
