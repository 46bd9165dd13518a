//! The sample data: products, articles and orders of a shop, and searches with their expected results.

use serde::Deserialize;
use serde_json::Value;
use windlass_core::TypeSpec;
use windlass_core::entity::{Change, Fields, TextField};
use windlass_index::SaveRequest;

const LINES: &str = include_str!("catalogue.ndjson");
const SEARCHES: &str = include_str!("searches.json");

#[derive(Deserialize)]
pub(super) struct Search {
    #[serde(rename = "type")]
    pub(super) entity_type: String,
    pub(super) query: String,
    pub(super) expect: Vec<String>,
    pub(super) why: String,
}

pub(super) fn types() -> Vec<TypeSpec> {
    let named = |name: &str, fields: &[(&str, u32)]| {
        let field = |(name, weight): &(&str, u32)| TextField { name: (*name).to_owned(), weight: *weight };
        TypeSpec { text: fields.iter().map(field).collect(), ..TypeSpec::named(name) }
    };
    vec![
        named("product", &[("name", 2), ("description", 1), ("category", 1)]),
        named("article", &[("title", 2), ("text", 1)]),
        named("order", &[("note", 1)]),
    ]
}

pub(super) fn read() -> Result<Vec<SaveRequest>, serde_json::Error> {
    LINES.lines().map(entity).collect()
}

fn entity(line: &str) -> Result<SaveRequest, serde_json::Error> {
    let mut fields: Fields = serde_json::from_str(line)?;
    let mut text = |name: &str| match fields.shift_remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (entity_type, id) = (text("type"), text("id"));
    Ok(SaveRequest::new(&entity_type, &id, Change::Put(fields)))
}

pub(super) fn searches() -> Result<Vec<Search>, serde_json::Error> {
    serde_json::from_str(SEARCHES)
}

/// `160 products, 80 articles, 80 orders`.
pub(super) fn counts(sample: &[SaveRequest]) -> String {
    let count = |spec: &TypeSpec| {
        let many = sample.iter().filter(|request| request.entity_type == spec.name).count();
        format!("{many} {}s", spec.name)
    };
    types().iter().map(count).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_entity_of_a_known_type_and_every_expected_result_exists() {
        let sample = read().unwrap();
        let types = types();
        assert!(sample.len() >= 300);
        for request in &sample {
            assert!(types.iter().any(|spec| spec.name == request.entity_type), "{request:?}");
        }
        for search in searches().unwrap() {
            for id in &search.expect {
                let there = |request: &SaveRequest| request.id.as_ref() == Some(id);
                assert!(sample.iter().any(|r| there(r) && r.entity_type == search.entity_type), "{id}");
            }
            assert!(!search.why.is_empty());
        }
    }
}
