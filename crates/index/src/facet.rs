//! Facets: for each value of a field, the number of matching documents that have it.
//!
//! Owns the counting and the order of values. A document counts once per value, even if its list repeats it. The
//! ranking decides which documents match.

use std::collections::HashMap;

use serde_json::Value as Json;
use windlass_core::Invalid;
use windlass_core::input::{MAX_KEY_BYTES, shown};

use crate::number::Number;
use crate::type_index::TypeIndex;
use crate::values::Value;

const MOST_FACETS: usize = 10;
/// Values returned for one field.
const MOST_SHOWN: usize = 100;

/// The values of one field, the most frequent first; ties in the order of the values.
#[derive(Clone, Debug, PartialEq)]
pub struct Facet {
    pub field: String,
    pub values: Vec<FacetValue>,
    /// Some values are missing: there were too many, or a text was too long to be kept.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FacetValue {
    /// Text, a number, true or false.
    pub value: Json,
    /// Matching entities that have this value.
    pub count: u64,
}

pub(crate) fn check(invalid: &mut Invalid, fields: &[String]) {
    if fields.len() > MOST_FACETS {
        invalid.add("facets", format!("has {} fields; at most {MOST_FACETS} are counted", fields.len()));
    }
    for (n, field) in fields.iter().enumerate() {
        if field.is_empty() || field.len() > MAX_KEY_BYTES {
            invalid.add(format!("facets[{n}]"), format!("must be 1–{MAX_KEY_BYTES} bytes"));
        }
        if fields[..n].contains(field) {
            invalid.add(format!("facets[{n}]"), format!("`{}` is listed twice", shown(field)));
        }
    }
}

/// A value independent of any type's numbering, so that counts of several types can be added. Its order breaks ties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum FacetKey {
    Bool(bool),
    Number(Number),
    Text(String),
}

impl FacetKey {
    fn into_json(self) -> Json {
        match self {
            FacetKey::Bool(value) => value.into(),
            FacetKey::Number(number) => number.into_json(),
            FacetKey::Text(text) => text.into(),
        }
    }
}

/// FacetCounts of one field's values, in one type or several.
#[derive(Clone, Debug, Default)]
pub(crate) struct FacetCounts {
    values: HashMap<FacetKey, u64>,
    too_long: bool,
}

impl FacetCounts {
    pub(crate) fn add(&mut self, other: FacetCounts) {
        self.too_long |= other.too_long;
        for (value, count) in other.values {
            *self.values.entry(value).or_default() += count;
        }
    }

    pub(crate) fn into_facet(self, field: &str) -> Facet {
        let mut all: Vec<(FacetKey, u64)> = self.values.into_iter().collect();
        let order = |a: &(FacetKey, u64), b: &(FacetKey, u64)| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0));
        let more = self.too_long || all.len() > MOST_SHOWN;
        if all.len() > MOST_SHOWN {
            all.select_nth_unstable_by(MOST_SHOWN - 1, order);
            all.truncate(MOST_SHOWN);
        }
        all.sort_by(order);
        let values = all.into_iter().map(|(value, count)| FacetValue { value: value.into_json(), count });
        Facet { field: field.to_owned(), values: values.collect(), more }
    }
}

impl TypeIndex {
    /// In the order of `fields`.
    pub(crate) fn count_facets(
        &self,
        fields: &[String],
        documents: impl Iterator<Item = u32>,
    ) -> Vec<FacetCounts> {
        let mut counts = vec![FacetCounts::default(); fields.len()];
        let numbers: Vec<Option<u32>> = fields.iter().map(|name| self.values.field(name)).collect();
        if numbers.iter().all(Option::is_none) {
            return counts;
        }
        // Texts are counted by their number: hashing the text of each document would dominate the cost.
        let mut texts: HashMap<(usize, u32), u64> = HashMap::new();
        for document in documents {
            let row = &self.documents[document as usize].row;
            for (n, entry) in row.iter().enumerate() {
                let Some(place) = numbers.iter().position(|number| *number == Some(entry.0)) else {
                    continue;
                };
                if row[..n].contains(entry) {
                    continue;
                }
                let value = match entry.1 {
                    Value::Text(number) => {
                        *texts.entry((place, number)).or_default() += 1;
                        continue;
                    }
                    Value::Long(_) => {
                        counts[place].too_long = true;
                        continue;
                    }
                    Value::Bool(value) => FacetKey::Bool(value),
                    Value::Number(value) => FacetKey::Number(value),
                };
                *counts[place].values.entry(value).or_default() += 1;
            }
        }
        for ((place, number), count) in texts {
            counts[place].values.insert(FacetKey::Text(self.values.text(number).to_owned()), count);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use windlass_core::TypeSpec;
    use windlass_core::id::EntityNo;

    use super::*;
    use crate::type_index::{Content, IndexEntry};

    fn index(rows: &[Json]) -> TypeIndex {
        let mut index = TypeIndex::new(Arc::new(TypeSpec::document()), 4);
        for (n, row) in rows.iter().enumerate() {
            let content = Content::New(row.as_object().unwrap().clone());
            let (no, id) = (EntityNo(n as i64), format!("e{n}"));
            index.apply(IndexEntry { no, id, version: 1, content, vector: None, indexed: false });
        }
        index
    }

    fn facets(rows: &[Json], fields: &[&str]) -> Vec<Facet> {
        let fields: Vec<String> = fields.iter().map(|name| (*name).to_owned()).collect();
        let counts = index(rows).count_facets(&fields, 0..rows.len() as u32);
        counts.into_iter().zip(&fields).map(|(counts, field)| counts.into_facet(field)).collect()
    }

    fn shown(facet: &Facet) -> Vec<(Json, u64)> {
        facet.values.iter().map(|value| (value.value.clone(), value.count)).collect()
    }

    #[test]
    fn values_are_ordered_by_count_then_value_across_json_types() {
        let rows = [
            json!({ "tags": ["new", "red", "red"], "price": 10, "on": true, "made": { "in": "Rome" } }),
            json!({ "tags": ["new", "blue"], "price": 10.0, "on": false }),
            json!({ "tags": "blue", "price": -0.0, "on": true }),
            json!({ "tags": ["new", 7, true, null], "price": 2.5 }),
            json!({ "price": 0 }),
        ];
        let found = facets(&rows, &["tags", "price", "on", "made.in", "none"]);
        assert_eq!(
            shown(&found[0]),
            [(json!("new"), 3), (json!("blue"), 2), (json!(true), 1), (json!(7), 1), (json!("red"), 1)]
        );
        assert_eq!(shown(&found[1]), [(json!(0), 2), (json!(10), 2), (json!(2.5), 1)]);
        assert_eq!(shown(&found[2]), [(json!(true), 2), (json!(false), 1)]);
        assert_eq!(shown(&found[3]), [(json!("Rome"), 1)]);
        assert!(found[4].values.is_empty() && found.iter().all(|facet| !facet.more));
    }

    #[test]
    fn at_most_100_values_are_returned_and_more_is_flagged() {
        let row = |n: usize| json!({ "n": n, "twice": n / 2, "long": "x".repeat(129 * (n % 2)) });
        let rows: Vec<Json> = (0..202).map(row).collect();
        let found = facets(&rows[..200], &["n", "twice", "long"]);
        assert_eq!((found[0].values.len(), found[0].more), (100, true));
        assert_eq!(found[0].values[99], FacetValue { value: json!(99), count: 1 });
        assert_eq!((found[1].values.len(), found[1].more), (100, false));
        assert_eq!((shown(&found[2]), found[2].more), (vec![(json!(""), 100)], true));
        assert!(facets(&rows, &["twice"])[0].more);
    }

    #[test]
    fn numbers_keep_their_exact_value() {
        let rows = [
            json!({ "n": 9_007_199_254_740_992_u64 }),
            json!({ "n": 1e300 }),
            json!({ "n": -3 }),
            json!({ "n": 9_007_199_254_740_993_u64 }),
        ];
        let values = shown(&facets(&rows, &["n"])[0]);
        let whole = |number: u64| (json!(number), 1);
        let big = [whole(9_007_199_254_740_992), whole(9_007_199_254_740_993)];
        assert_eq!(values, [vec![(json!(-3), 1)], big.to_vec(), vec![(json!(1e300), 1)]].concat());
    }

    #[test]
    fn every_problem_is_reported() {
        let mut invalid = Invalid::default();
        let mut fields: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        fields.extend([String::new(), "0".to_owned(), "y".repeat(257)]);
        check(&mut invalid, &fields);
        let text = invalid.to_string();
        for part in
            ["facets: has 12 fields", "facets[9]: must be", "facets[10]: `0` is listed twice", "facets[11]"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
