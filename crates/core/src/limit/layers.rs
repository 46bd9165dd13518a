//! What is configured, what an operator set live over it, and what is in force of both.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::{LimitValue, Of, PERMITS};
use crate::store::{Live, StoreError};

/// LimitValues by the names of limits; a limit that is there with nothing is lifted.
pub type LimitValues = BTreeMap<&'static str, Option<LimitValue>>;

/// What an operator says of limits, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveChanges(BTreeMap<&'static str, Live<Option<LimitValue>>>);

impl LiveChanges {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<Live<Option<LimitValue>>> {
        self.0.get(name).copied()
    }
}

impl FromIterator<(&'static str, Live<Option<LimitValue>>)> for LiveChanges {
    fn from_iter<I: IntoIterator<Item = (&'static str, Live<Option<LimitValue>>)>>(said: I) -> LiveChanges {
        LiveChanges(said.into_iter().collect())
    }
}

/// The layers of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    of: Of,
    configured: LimitValues,
    live: LimitValues,
}

/// The layers of a row before and after a change.
#[derive(Clone, Debug)]
pub struct LayerChange {
    pub before: Layers,
    pub after: Layers,
}

impl Layers {
    /// As a row keeps them.
    pub fn read(of: Of, configured: &str, live: &str) -> Result<Layers, StoreError> {
        Ok(Layers { of, configured: read(of, configured)?, live: read(of, live)? })
    }

    /// Nothing was ever configured: the row is new.
    pub fn is_new(&self) -> bool {
        self.configured.is_empty()
    }

    pub fn configure(&mut self, values: LimitValues) {
        self.configured = values;
    }

    /// What is said of a resource. Where only its name is said, what was said before stays; one permit at first.
    pub fn configure_permits(&mut self, permits: Option<u32>) {
        let permits = permits.or(self.is_new().then_some(1));
        self.configured.extend(permits.map(|permits| (PERMITS, Some(LimitValue::Number(permits.into())))));
    }

    pub fn set(&mut self, changes: &LiveChanges) {
        for (name, live) in &changes.0 {
            match live {
                Live::Configured => self.live.remove(name),
                Live::Set(value) => self.live.insert(name, *value),
            };
        }
    }

    pub fn configured(&self, name: &str) -> Option<LimitValue> {
        self.configured.get(name).copied().flatten()
    }

    /// What an operator set: `Some(None)` is lifted.
    pub fn live(&self, name: &str) -> Option<Option<LimitValue>> {
        self.live.get(name).copied()
    }

    /// A live value wins.
    pub fn in_force(&self, name: &str) -> Option<LimitValue> {
        self.live(name).unwrap_or_else(|| self.configured(name))
    }

    pub fn of(&self) -> Of {
        self.of
    }

    /// For the column `configured`.
    pub fn configured_text(&self) -> String {
        text(self.of, &self.configured)
    }

    /// For the column `live`.
    pub fn live_text(&self) -> String {
        text(self.of, &self.live)
    }
}

impl LayerChange {
    pub fn rose(&self, name: &str) -> bool {
        let number = |layers: &Layers| match layers.in_force(name) {
            Some(LimitValue::Number(number)) => Some(number),
            _ => None,
        };
        number(&self.before).zip(number(&self.after)).is_some_and(|(before, after)| after > before)
    }

    /// The detail of an audit line: what is in force before and after. Where that alone does not say which layer holds,
    /// because the value was pinned as it is or was given back, `live` names the limit on the side where it is the
    /// operator's.
    pub fn differences(moved: &[LayerChange]) -> Map<String, Json> {
        let mut detail = Map::new();
        let mut live = [Vec::new(), Vec::new()];
        for LayerChange { before, after } in moved {
            for limit in before.of.limits() {
                let sides = [before, after].map(|layers| layers.in_force(limit.name));
                let set = [before, after].map(|layers| layers.live(limit.name).is_some());
                if sides[0] != sides[1] {
                    let [from, to] = sides.map(|value| value.map(LimitValue::told));
                    detail.insert(limit.audit_name(), json!({ "from": from, "to": to }));
                }
                if set[0] != set[1] && (set[0] || sides[0] == sides[1]) {
                    live[usize::from(set[1])].push(limit.name);
                }
            }
        }
        if live.iter().any(|names| !names.is_empty()) {
            let [from, to] = live;
            detail.insert("live".to_owned(), json!({ "from": from, "to": to }));
        }
        detail
    }
}

/// A layer as it is kept: an object of columns and values. What this version has no limit for is left out.
fn read(of: Of, text: &str) -> Result<LimitValues, StoreError> {
    let corrupt = |error| StoreError::Corrupt { what: format!("limits are kept as `{text}`: {error}") };
    let kept: Map<String, Json> = serde_json::from_str(text).map_err(corrupt)?;
    let mut values = LimitValues::new();
    for limit in of.limits() {
        if let Some(value) = kept.get(limit.column) {
            values.insert(limit.name, limit.form.kept(value)?);
        }
    }
    Ok(values)
}

fn text(of: Of, values: &LimitValues) -> String {
    let mut kept = Map::new();
    for limit in of.limits() {
        if let Some(value) = values.get(limit.name) {
            kept.insert(limit.column.to_owned(), json!(value.map(LimitValue::stored)));
        }
    }
    Json::Object(kept).to_string()
}
