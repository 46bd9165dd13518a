//! What operators did, as it is kept: who, what, to what, and how that stood before and after.
//!
//! Owns the words of acts and what a line says. A store writes it in the transaction of the act.

mod jobs;
mod note;
mod words;

use serde_json::{Map, Value, json};

use crate::Time;

pub use jobs::{filter_words, job_figures, named_jobs, on_job, on_jobs};
pub use note::Note;
pub use words::*;

/// Who acts: a name for people, checked when it was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Actor(String);

impl Actor {
    const MAX_BYTES: usize = 200;

    /// A name that is too long is cut; the rest of the line still says what was done.
    pub fn new(name: impl Into<String>) -> Actor {
        let mut name = name.into();
        let end = (0..=Actor::MAX_BYTES.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
        name.truncate(end.unwrap_or_default());
        Actor(name)
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

/// One act of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Its place among all; later ones are larger.
    pub seq: i64,
    pub at: Time,
    pub actor: String,
    pub act: String,
    pub subject: String,
    /// JSON: `{"limit": {"from": "500.00", "to": "750.00"}}`, and what was taken back where nothing came in its place.
    pub detail: String,
}

impl Act {
    /// What the detail says of before and after, field by field. What has neither side was taken back.
    pub fn sides(&self) -> (Map<String, Value>, Map<String, Value>) {
        let (mut before, mut after) = (Map::new(), Map::new());
        let detail: Map<String, Value> = serde_json::from_str(&self.detail).unwrap_or_default();
        for (field, mut change) in detail {
            match change.as_object_mut().map(|change| (change.remove("from"), change.remove("to"))) {
                None | Some((None, None)) => {
                    before.insert(field, change);
                }
                Some((from, to)) => {
                    before.extend(from.map(|from| (field.clone(), from)));
                    after.extend(to.map(|to| (field, to)));
                }
            }
        }
        (before, after)
    }
}

/// The detail of a change: each field that is another one now. A field that is missing is as good as `null`.
pub fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut detail = Map::new();
    let gone = before.keys().filter(|field| !after.contains_key(*field));
    for field in after.keys().chain(gone) {
        let (from, to) = (before.get(field), after.get(field));
        let (from, to) = (from.unwrap_or(&Value::Null), to.unwrap_or(&Value::Null));
        if from != to {
            detail.insert(field.clone(), json!({ "from": from, "to": to }));
        }
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_line_says_what_differs_and_is_read_back() {
        let before = object(json!({ "paused": false, "concurrency": 5, "depth_cap": null }));
        let after = object(json!({ "paused": true, "concurrency": 5, "depth_cap": 9 }));
        let mut detail = Value::Object(differences(&before, &after));
        assert_eq!(
            detail,
            json!({ "paused": { "from": false, "to": true }, "depth_cap": { "from": null, "to": 9 } })
        );
        detail["reset"] = json!({ "amount": "0.25", "tokens": 90 });
        detail["filter"] = json!({ "from": { "kind": "K" } });
        detail["done"] = json!({ "to": 3 });
        let act = Act {
            seq: 1,
            at: Time(0),
            actor: "me".to_owned(),
            act: QUEUE_CHANGE.to_owned(),
            subject: "queue/LOW".to_owned(),
            detail: detail.to_string(),
        };
        let (was, is) = act.sides();
        let taken = json!({ "amount": "0.25", "tokens": 90 });
        let meant = json!({ "kind": "K" });
        assert_eq!(
            Value::Object(was),
            json!({ "paused": false, "depth_cap": null, "reset": taken, "filter": meant })
        );
        assert_eq!(Value::Object(is), json!({ "paused": true, "depth_cap": 9, "done": 3 }));
    }

    #[test]
    fn a_field_that_is_gone_differs_and_one_that_never_was_does_not() {
        let before = object(json!({ "zone": "UTC", "catch_up": null, "kind": "K" }));
        let after = object(json!({ "kind": "K", "tags": null }));
        assert_eq!(
            Value::Object(differences(&before, &after)),
            json!({ "zone": { "from": "UTC", "to": null } })
        );
    }
}
