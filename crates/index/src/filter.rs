//! Filters: parsed from JSON once, then evaluated for each document.
//!
//! Forms: `{"field": value}`, `{"field": {"gte": 1, "lt": 9}}`, `{"all": […]}`, `{"any": […]}`, `{"not": {…}}`.
//! Several keys in one object must all hold. A field that is a list matches when any element does.

use std::cmp::Ordering;

use serde_json::Value as Json;
use windlass_core::Invalid;
use windlass_core::input::shown;

use crate::number::Number;
use crate::values::{FieldRow, Value, Values};

const DEEPEST: usize = 8;
const MOST_CONDITIONS: usize = 128;
const MOST_CHOICES: usize = 1_000;

#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Field { name: String, test: Test },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    In(Vec<Json>),
    Compare(Comparison, Json),
    Exists(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Gt,
    Gte,
    Lt,
    Lte,
}

impl Filter {
    pub fn parse(json: &Json) -> Result<Filter, Invalid> {
        let mut parser = FilterParser { invalid: Invalid::default(), conditions: 0 };
        let filter = parser.object("filter", json, 0);
        parser.invalid.into_result()?;
        Ok(filter)
    }
}

struct FilterParser {
    invalid: Invalid,
    conditions: usize,
}

impl FilterParser {
    fn object(&mut self, at: &str, json: &Json, depth: usize) -> Filter {
        let Json::Object(entries) = json else {
            self.invalid.add(at, "must be an object");
            return Filter::All(Vec::new());
        };
        if depth > DEEPEST {
            self.invalid.add(at, format!("is nested deeper than {DEEPEST}"));
            return Filter::All(Vec::new());
        }
        let mut all = Vec::new();
        for (key, value) in entries {
            let at = format!("{at}.{}", shown(key));
            match (key.as_str(), value) {
                ("all", Json::Array(list)) => all.push(Filter::All(self.list(&at, list, depth))),
                ("any", Json::Array(list)) => all.push(Filter::Any(self.list(&at, list, depth))),
                ("not", Json::Object(_)) => {
                    all.push(Filter::Not(Box::new(self.object(&at, value, depth + 1))))
                }
                ("all" | "any", _) => self.invalid.add(at, "must be a list of filters"),
                ("not", _) => self.invalid.add(at, "must be a filter, an object"),
                _ => self.field(&at, key, value, &mut all),
            }
        }
        if all.len() == 1 { all.swap_remove(0) } else { Filter::All(all) }
    }

    fn list(&mut self, at: &str, list: &[Json], depth: usize) -> Vec<Filter> {
        let each = list.iter().enumerate();
        each.map(|(n, json)| self.object(&format!("{at}[{n}]"), json, depth + 1)).collect()
    }

    fn field(&mut self, at: &str, name: &str, value: &Json, all: &mut Vec<Filter>) {
        self.conditions += 1;
        if self.conditions == MOST_CONDITIONS + 1 {
            self.invalid.add("filter", format!("has more than {MOST_CONDITIONS} conditions"));
        }
        let field = |test| Filter::Field { name: name.to_owned(), test };
        match value {
            Json::Object(tests) => {
                if tests.is_empty() {
                    self.invalid.add(at, "has no test; known: eq, ne, in, gt, gte, lt, lte, exists");
                }
                for (word, operand) in tests {
                    let at = format!("{at}.{}", shown(word));
                    all.extend(self.test(&at, word, operand).map(|(negated, test)| match negated {
                        true => Filter::Not(Box::new(field(test))),
                        false => field(test),
                    }));
                }
            }
            Json::Array(list) => all.extend(self.choices(at, list).map(field)),
            Json::Null => all.push(field(Test::Exists(false))),
            scalar => all.push(field(Test::In(vec![scalar.clone()]))),
        }
    }

    /// Parses one test; the flag says that it is negated.
    fn test(&mut self, at: &str, word: &str, operand: &Json) -> Option<(bool, Test)> {
        let comparison = match word {
            "gt" => Some(Comparison::Gt),
            "gte" => Some(Comparison::Gte),
            "lt" => Some(Comparison::Lt),
            "lte" => Some(Comparison::Lte),
            _ => None,
        };
        match (word, comparison, operand) {
            (_, Some(comparison), Json::Number(_) | Json::String(_)) => {
                Some((false, Test::Compare(comparison, operand.clone())))
            }
            (_, Some(_), _) => self.refuse(at, "must be a number or a string"),
            ("in", _, Json::Array(list)) => Some((false, self.choices(at, list)?)),
            ("in", ..) => self.refuse(at, "must be a list"),
            ("exists", _, Json::Bool(wanted)) => Some((false, Test::Exists(*wanted))),
            ("exists", ..) => self.refuse(at, "must be true or false"),
            ("eq" | "ne", _, Json::Bool(_) | Json::Number(_) | Json::String(_)) => {
                Some((word == "ne", Test::In(vec![operand.clone()])))
            }
            ("eq" | "ne", ..) => self.refuse(at, "must be a string, a number, true or false"),
            _ => self.refuse(at, "is not a test; known: eq, ne, in, gt, gte, lt, lte, exists"),
        }
    }

    fn choices(&mut self, at: &str, list: &[Json]) -> Option<Test> {
        if list.len() > MOST_CHOICES {
            self.invalid.add(at, format!("has {} entries; at most {MOST_CHOICES} are allowed", list.len()));
            return None;
        }
        if list.iter().any(|value| matches!(value, Json::Array(_) | Json::Object(_) | Json::Null)) {
            self.invalid.add(at, "must hold strings, numbers, true or false");
            return None;
        }
        Some(Test::In(list.to_vec()))
    }

    fn refuse<T>(&mut self, at: &str, rule: &str) -> Option<T> {
        self.invalid.add(at, rule);
        None
    }
}

/// A filter resolved against one type: field names and values are numbers.
pub(crate) enum Compiled<'a> {
    All(Vec<Compiled<'a>>),
    Any(Vec<Compiled<'a>>),
    Not(Box<Compiled<'a>>),
    In(u32, Vec<Value>),
    Compare(u32, Comparison, &'a Json),
    Exists(u32),
    Never,
}

impl<'a> Compiled<'a> {
    pub(crate) fn new(filter: &'a Filter, values: &Values) -> Compiled<'a> {
        let each = |list: &'a [Filter]| list.iter().map(|one| Compiled::new(one, values)).collect();
        match filter {
            Filter::All(list) => Compiled::All(each(list)),
            Filter::Any(list) => Compiled::Any(each(list)),
            Filter::Not(one) => Compiled::Not(Box::new(Compiled::new(one, values))),
            Filter::Field { name, test } => match (values.field(name), test) {
                (None, Test::Exists(false)) => Compiled::Not(Box::new(Compiled::Never)),
                (None, _) => Compiled::Never,
                (Some(field), Test::In(list)) => {
                    Compiled::In(field, list.iter().filter_map(|value| values.find(value)).collect())
                }
                (Some(field), Test::Compare(comparison, operand)) => {
                    Compiled::Compare(field, *comparison, operand)
                }
                (Some(field), Test::Exists(true)) => Compiled::Exists(field),
                (Some(field), Test::Exists(false)) => Compiled::Not(Box::new(Compiled::Exists(field))),
            },
        }
    }

    pub(crate) fn holds(&self, row: &FieldRow, values: &Values) -> bool {
        let of = |field: u32| row.iter().filter(move |(name, _)| *name == field).map(|(_, value)| value);
        match self {
            Compiled::All(list) => list.iter().all(|one| one.holds(row, values)),
            Compiled::Any(list) => list.iter().any(|one| one.holds(row, values)),
            Compiled::Not(one) => !one.holds(row, values),
            Compiled::In(field, choices) => of(*field).any(|value| choices.contains(value)),
            Compiled::Exists(field) => of(*field).next().is_some(),
            Compiled::Never => false,
            Compiled::Compare(field, comparison, operand) => of(*field)
                .any(|value| compare(value, operand, values).is_some_and(|order| comparison.fits(order))),
        }
    }
}

impl Comparison {
    fn fits(self, order: Ordering) -> bool {
        match self {
            Comparison::Gt => order == Ordering::Greater,
            Comparison::Gte => order != Ordering::Less,
            Comparison::Lt => order == Ordering::Less,
            Comparison::Lte => order != Ordering::Greater,
        }
    }
}

/// Compares numbers with numbers and text with text, so RFC 3339 times compare. Other pairs have no order.
fn compare(value: &Value, operand: &Json, values: &Values) -> Option<Ordering> {
    match (value, operand) {
        (Value::Number(value), Json::Number(operand)) => Some(value.cmp(&Number::of(operand)?)),
        (Value::Text(number), Json::String(operand)) => Some(values.text(*number).cmp(operand)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [&str; 3] = [
        r#"{"price": 10, "tags": ["red", "new"], "on": true, "made": {"at": "2026-01-05"}}"#,
        r#"{"price": 20, "tags": ["blue"], "on": false}"#,
        r#"{"price": 30.5}"#,
    ];

    fn matching(filter: &str) -> Vec<usize> {
        let filter = Filter::parse(&serde_json::from_str(filter).unwrap()).unwrap();
        let mut values = Values::default();
        let rows: Vec<FieldRow> =
            ROWS.iter().map(|json| values.row(&serde_json::from_str(json).unwrap())).collect();
        let compiled = Compiled::new(&filter, &values);
        (0..rows.len()).filter(|n| compiled.holds(&rows[*n], &values)).collect()
    }

    #[test]
    fn each_filter_matches_the_expected_rows() {
        for (filter, found) in [
            ("{}", &[0usize, 1, 2][..]),
            (r#"{"price": 20}"#, &[1]),
            (r#"{"price": {"gte": 20, "lt": 30.5}}"#, &[1]),
            (r#"{"tags": "new"}"#, &[0]),
            (r#"{"tags": {"in": ["blue", "new"]}, "on": true}"#, &[0]),
            (r#"{"any": [{"price": {"gt": 30}}, {"on": false}]}"#, &[1, 2]),
            (r#"{"not": {"on": true}}"#, &[1, 2]),
            (r#"{"tags": {"exists": false}}"#, &[2]),
            (r#"{"tags": null}"#, &[2]),
            (r#"{"unknown": 1}"#, &[]),
            (r#"{"unknown": {"exists": false}}"#, &[0, 1, 2]),
            (r#"{"made.at": {"gte": "2026-01-01"}}"#, &[0]),
            (r#"{"price": {"ne": 10}}"#, &[1, 2]),
            (r#"{"price": "10"}"#, &[]),
            (r#"{"all": [{"price": {"lte": 20}}, {"not": {"tags": "red"}}]}"#, &[1]),
        ] {
            assert_eq!(matching(filter), found, "{filter}");
        }
    }

    #[test]
    fn integers_beyond_2_to_the_53_stay_distinct() {
        let mut values = Values::default();
        let ids = [7_528_080_644_346_216_448_u64, 7_528_080_644_346_216_449, 7_528_080_644_346_216_500];
        let rows: Vec<FieldRow> = ids
            .iter()
            .map(|id| values.row(serde_json::json!({ "owner": id }).as_object().unwrap()))
            .collect();
        let found = |filter: serde_json::Value| -> Vec<u64> {
            let filter = Filter::parse(&filter).unwrap();
            let compiled = Compiled::new(&filter, &values);
            ids.iter().zip(&rows).filter(|(_, row)| compiled.holds(row, &values)).map(|(id, _)| *id).collect()
        };
        assert_eq!(found(serde_json::json!({ "owner": ids[1] })), ids[1..2]);
        assert_eq!(found(serde_json::json!({ "owner": { "gt": ids[1] } })), ids[2..]);
        assert_eq!(found(serde_json::json!({ "owner": { "in": [ids[0], ids[2]] } })), [ids[0], ids[2]]);
    }

    #[test]
    fn every_problem_is_reported() {
        let json = serde_json::from_str(
            r#"{"a": {"near": 1}, "b": {"gte": []}, "all": [3], "c": {"in": [[]]}, "any": {}, "not": []}"#,
        );
        let invalid = Filter::parse(&json.unwrap()).unwrap_err().to_string();
        for part in [
            "filter.a.near",
            "filter.b.gte",
            "filter.all[0]",
            "filter.c.in",
            "filter.any: must be a list",
            "filter.not",
        ] {
            assert!(invalid.contains(part), "{invalid}");
        }
        let mut deep = "{}".to_owned();
        for _ in 0..20 {
            deep = format!(r#"{{"not": {deep}}}"#);
        }
        assert!(Filter::parse(&serde_json::from_str(&deep).unwrap()).is_err());
    }
}
