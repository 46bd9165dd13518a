//! What operators did, as it is kept: who, what, to what, and how that stood before and after.
//!
//! Owns the words of acts and what a line says. A store writes it in the transaction of the act.

use serde_json::{Map, Value, json};

use crate::Time;

pub const QUEUE_CHANGE: &str = "queue.change";
pub const KIND_CHANGE: &str = "kind.change";

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
    /// What the detail says of before and after, field by field.
    pub fn sides(&self) -> (Map<String, Value>, Map<String, Value>) {
        let (mut before, mut after) = (Map::new(), Map::new());
        let detail: Map<String, Value> = serde_json::from_str(&self.detail).unwrap_or_default();
        for (field, mut change) in detail {
            match change.as_object_mut().map(|change| (change.remove("from"), change.remove("to"))) {
                Some((Some(from), Some(to))) => {
                    before.insert(field.clone(), from);
                    after.insert(field, to);
                }
                _ => {
                    before.insert(field, change);
                }
            }
        }
        (before, after)
    }
}

/// The detail of a change: each field that is another one now.
pub fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Value {
    let mut detail = Map::new();
    for (field, to) in after {
        let from = before.get(field).unwrap_or(&Value::Null);
        if from != to {
            detail.insert(field.clone(), json!({ "from": from, "to": to }));
        }
    }
    Value::Object(detail)
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
        let mut detail = differences(&before, &after);
        assert_eq!(
            detail,
            json!({ "paused": { "from": false, "to": true }, "depth_cap": { "from": null, "to": 9 } })
        );
        detail["reset"] = json!({ "amount": "0.25", "tokens": 90 });
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
        assert_eq!(Value::Object(was), json!({ "paused": false, "depth_cap": null, "reset": taken }));
        assert_eq!(Value::Object(is), json!({ "paused": true, "depth_cap": 9 }));
    }
}
