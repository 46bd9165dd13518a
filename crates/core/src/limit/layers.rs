//! The configured layer, the live layer, and the value in force.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::{LimitOwner, LimitValue, PERMITS};
use crate::store::{Live, StoreError};

/// Values by limit name. `None` means no limit.
pub type LimitValues = BTreeMap<&'static str, Option<LimitValue>>;

/// An operator's changes by limit name.
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
    fn from_iter<I: IntoIterator<Item = (&'static str, Live<Option<LimitValue>>)>>(
        changes: I,
    ) -> LiveChanges {
        LiveChanges(changes.into_iter().collect())
    }
}

/// Both layers of one queue, kind or resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    owner: LimitOwner,
    configured: LimitValues,
    live: LimitValues,
}

#[derive(Clone, Debug)]
pub struct LayerChange {
    pub before: Layers,
    pub after: Layers,
}

impl Layers {
    /// From the JSON text of the columns `configured` and `live`.
    pub fn read(owner: LimitOwner, configured: &str, live: &str) -> Result<Layers, StoreError> {
        Ok(Layers { owner, configured: read(owner, configured)?, live: read(owner, live)? })
    }

    /// True for a row that was never configured.
    pub fn is_new(&self) -> bool {
        self.configured.is_empty()
    }

    pub fn configure(&mut self, values: LimitValues) {
        self.configured = values;
    }

    /// Configures a resource. If its permits are not configured, the previous number is kept, or 1 for a new resource.
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

    /// The live value, if any. `Some(None)` means an operator removed the limit.
    pub fn live(&self, name: &str) -> Option<Option<LimitValue>> {
        self.live.get(name).copied()
    }

    /// The live value, else the configured one.
    pub fn in_force(&self, name: &str) -> Option<LimitValue> {
        self.live(name).unwrap_or_else(|| self.configured(name))
    }

    pub fn owner(&self) -> LimitOwner {
        self.owner
    }

    /// For the column `configured`.
    pub fn configured_text(&self) -> String {
        text(self.owner, &self.configured)
    }

    /// For the column `live`.
    pub fn live_text(&self) -> String {
        text(self.owner, &self.live)
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

    /// The detail of an audit record: the values in force before and after. The layer may change without the value,
    /// when an operator pins the current value or resets it to the configured one. Then `live` lists the limit on the
    /// side where it was live.
    pub fn differences(moved: &[LayerChange]) -> Map<String, Json> {
        let mut detail = Map::new();
        let mut live = [Vec::new(), Vec::new()];
        for LayerChange { before, after } in moved {
            for limit in before.owner.limits() {
                let sides = [before, after].map(|layers| layers.in_force(limit.name));
                let set = [before, after].map(|layers| layers.live(limit.name).is_some());
                if sides[0] != sides[1] {
                    let [from, to] = sides.map(|value| value.map(LimitValue::audit_value));
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

/// Reads a layer: an object of column names and values. Limits unknown to this version are ignored.
fn read(owner: LimitOwner, text: &str) -> Result<LimitValues, StoreError> {
    let corrupt = |error| StoreError::Corrupt { what: format!("limits are kept as `{text}`: {error}") };
    let kept: Map<String, Json> = serde_json::from_str(text).map_err(corrupt)?;
    let mut values = LimitValues::new();
    for limit in owner.limits() {
        if let Some(value) = kept.get(limit.column) {
            values.insert(limit.name, limit.form.from_stored(value)?);
        }
    }
    Ok(values)
}

fn text(owner: LimitOwner, values: &LimitValues) -> String {
    let mut kept = Map::new();
    for limit in owner.limits() {
        if let Some(value) = values.get(limit.name) {
            kept.insert(limit.column.to_owned(), json!(value.map(LimitValue::stored)));
        }
    }
    Json::Object(kept).to_string()
}
