//! Limits in routes and in the configuration, derived from the table in `core::limit`.

use serde_json::{Value as Json, json};
use windlass_core::limit::{Lift, Limit, LimitForm, LimitValue, Limited, LiveChanges, NONE};
use windlass_core::store::Live;

use crate::fields::{CONFIGURED_JSON, Fields, sort};
use crate::settings::{self, Section, Setting, SettingValue};
use crate::shape::{Object, or_null};

impl Fields<'_> {
    /// Reads all limits: a value, nothing to remove the limit, or `configured` to reset it.
    pub fn limits<S: Limited>(&mut self) -> LiveChanges {
        S::limits().filter_map(|limit| Some((limit.name, self.limit(limit)?))).collect()
    }

    fn limit(&mut self, limit: &'static Limit) -> Option<Live<Option<LimitValue>>> {
        let text = self.raw(limit.name)?.get();
        let change = match (text, limit.form) {
            (CONFIGURED_JSON, _) | ("null", LimitForm::Duration) => Ok(Live::Configured),
            ("null", LimitForm::Number { .. }) if limit.lift != Lift::Never => Ok(Live::Set(None)),
            ("null", _) => return None,
            (number, LimitForm::Number { .. }) => limit.form.read(number).map(|value| Live::Set(Some(value))),
            (text, LimitForm::Duration | LimitForm::Rate) => read_text(limit, text),
        };
        change.map_err(|rule| self.refuse(limit.name, rule + &further(limit))).ok()
    }
}

fn read_text(limit: &Limit, text: &str) -> Result<Live<Option<LimitValue>>, String> {
    match (serde_json::from_str::<String>(text), limit.form) {
        (Ok(text), _) if text == NONE && limit.lift != Lift::Never => Ok(Live::Set(None)),
        (Ok(text), form) => form.read(&text).map(|value| Live::Set(Some(value))),
        (Err(_), LimitForm::Rate) => Err(format!("must be text, not {}", sort(text.as_bytes()))),
        (Err(_), form) => Err(form.rule()),
    }
}

/// What is allowed instead of a value.
fn further(limit: &Limit) -> String {
    match (limit.form, limit.lift) {
        (LimitForm::Number { .. }, Lift::Never) => format!(", or {CONFIGURED_JSON} to reset it"),
        (LimitForm::Number { .. }, _) => format!(", null for no limit, or {CONFIGURED_JSON} to reset it"),
        (LimitForm::Duration, Lift::Never) => {
            format!(", or null or {CONFIGURED_JSON} for the configured value")
        }
        (LimitForm::Duration, _) => {
            format!(", or none, or null or {CONFIGURED_JSON} for the configured value")
        }
        (LimitForm::Rate, _) => format!(", none, or {CONFIGURED_JSON} to reset it"),
    }
}

impl Object<'_> {
    /// Describes all limits as [`Fields::limits`] reads them.
    pub fn limits<S: Limited>(&mut self) {
        for limit in S::limits() {
            let lifted = match (limit.form, limit.lift) {
                (_, Lift::Never) => "",
                (LimitForm::Number { .. }, _) => "; null removes it",
                (LimitForm::Duration, _) => "; `none` removes it, null resets it to the configured value",
                (LimitForm::Rate, _) => "; `none` removes it",
            };
            // Where null has no meaning of its own, it means that nothing is said.
            self.field(limit.name, or_null(schema(limit)), &format!("{}{lifted}", limit.about));
        }
    }
}

fn schema(limit: &Limit) -> Json {
    match (limit.form, limit.lift) {
        (LimitForm::Number { max }, Lift::Never) => {
            json!({ "type": ["integer", "string"], "minimum": 1, "maximum": max, "pattern": "^configured$" })
        }
        (LimitForm::Number { max }, _) => {
            json!({ "type": ["integer", "null", "string"], "minimum": 1, "maximum": max, "pattern": "^configured$" })
        }
        (LimitForm::Duration, _) => {
            json!({ "type": ["string", "null"], "examples": ["90s", "PT10M", "none", "configured"] })
        }
        (LimitForm::Rate, _) => {
            let pattern = "^([0-9]+/[smhd]|none|configured)$";
            json!({ "type": "string", "pattern": pattern, "examples": ["500/s", "30/m", "none", "configured"] })
        }
    }
}

/// The configuration keys of all limits in a section.
pub fn keys<S: Limited>(section: Section) -> Vec<Setting> {
    let key = |limit: &Limit| Setting {
        example: limit.example,
        ..Setting::new(section, limit.name, form(limit), limit.default, limit.about)
    };
    S::limits().map(key).collect()
}

fn form(limit: &Limit) -> settings::Form {
    let none = limit.lift == Lift::Always;
    match limit.form {
        LimitForm::Number { max } if none => settings::Form::CountOrNone { min: 1, max },
        LimitForm::Number { max } => settings::Form::Count { min: 1, max },
        LimitForm::Duration if none => settings::Form::DurationOrNone { min_ms: 1 },
        LimitForm::Duration => settings::Form::Duration { min_ms: 1 },
        LimitForm::Rate => settings::Form::RateOrNone,
    }
}

impl SettingValue {
    /// As a limit; `none` becomes `None`.
    pub fn limit(&self) -> Option<LimitValue> {
        match self {
            SettingValue::Count(count) => Some(LimitValue::Number(*count)),
            SettingValue::Duration(duration) => Some(LimitValue::Duration(*duration)),
            SettingValue::Rate(rate) => Some(LimitValue::Rate(*rate)),
            SettingValue::Text(_)
            | SettingValue::Flag(_)
            | SettingValue::Money(_)
            | SettingValue::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{KindSpec, QueueSpec};

    use super::*;

    fn read<S: Limited>(
        name: &'static str,
        value: &Json,
    ) -> Result<Option<Live<Option<LimitValue>>>, String> {
        let body = json!({ name: value }).to_string();
        let mut fields = Fields::read(body.as_bytes(), "").unwrap();
        let change = fields.limits::<S>().get(name);
        fields.end().map(|()| change).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn the_meaning_of_null_depends_on_the_form() {
        let null = Json::Null;
        assert_eq!(read::<QueueSpec>("concurrency", &null), Ok(None));
        assert_eq!(read::<QueueSpec>("depth_cap", &null), Ok(Some(Live::Set(None))));
        assert_eq!(read::<QueueSpec>("boost_after", &null), Ok(Some(Live::Configured)));
        assert_eq!(read::<KindSpec>("rate", &null), Ok(None));
        for limit in QueueSpec::limits() {
            assert_eq!(read::<QueueSpec>(limit.name, &json!("configured")), Ok(Some(Live::Configured)));
            assert!(read::<QueueSpec>(limit.name, &json!(-1)).unwrap_err().starts_with(limit.name));
        }
    }
}
