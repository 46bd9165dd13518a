//! The audit: who did what to what, with the values before and after.
//!
//! Owns the names of actions and the contents of a record. A store writes the record in the transaction of the action.

mod jobs;
mod note;
mod words;

use serde_json::{Map, Value, json};

use crate::Time;

pub use jobs::{filter_words, job_figures, named_jobs, on_job, on_jobs};
pub use note::NewAudit;
pub use words::*;

/// The name of the person or program that acts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Actor(String);

impl Actor {
    const MAX_BYTES: usize = 200;

    /// Cuts a name that is too long rather than refusing it: the action matters more than the full name.
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

/// A stored audit record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Later records have larger numbers.
    pub seq: i64,
    pub at: Time,
    pub actor: String,
    pub act: String,
    pub subject: String,
    /// JSON: `{"limit": {"from": "500.00", "to": "750.00"}}`. Values that were only removed appear without the two
    /// sides.
    pub detail: String,
}

impl AuditRecord {
    /// The detail split into the values before and after. A field without the two sides was removed, so it counts as
    /// before.
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

/// The fields that differ. A missing field equals `null`.
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
    fn a_record_has_the_differences_and_is_read_back() {
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
        let act = AuditRecord {
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
    fn a_removed_field_differs_and_one_that_never_existed_does_not() {
        let before = object(json!({ "zone": "UTC", "catch_up": null, "kind": "K" }));
        let after = object(json!({ "kind": "K", "tags": null }));
        assert_eq!(
            Value::Object(differences(&before, &after)),
            json!({ "zone": { "from": "UTC", "to": null } })
        );
    }
}
