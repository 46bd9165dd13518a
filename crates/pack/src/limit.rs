//! Limits as routes and configuration have them: read, described and declared from the table in `core::limit`.

use serde_json::{Value as Json, json};
use windlass_core::limit::{Form, Lift, Limit, Limited, LiveChanges, NONE, Value};
use windlass_core::store::Live;

use crate::fields::{BACK, Fields, sort};
use crate::settings::{self, Section, Setting, SettingValue};
use crate::shape::Object;

impl Fields<'_> {
    /// What is said of any limit: a value, nothing at all to lift it, or `configured` to go back.
    pub fn limits<S: Limited>(&mut self) -> LiveChanges {
        S::limits().filter_map(|limit| Some((limit.name, self.limit(limit)?))).collect()
    }

    fn limit(&mut self, limit: &'static Limit) -> Option<Live<Option<Value>>> {
        let text = self.raw(limit.name)?.get();
        let said = match (text, limit.form) {
            (BACK, _) | ("null", Form::Duration) => Ok(Live::Configured),
            ("null", Form::Number { .. }) if limit.lift != Lift::Never => Ok(Live::Set(None)),
            ("null", _) => return None,
            (number, Form::Number { .. }) => limit.form.read(number).map(|value| Live::Set(Some(value))),
            (text, Form::Duration | Form::Rate) => read_text(limit, text),
        };
        said.map_err(|rule| self.refuse(limit.name, rule + &further(limit))).ok()
    }
}

fn read_text(limit: &Limit, text: &str) -> Result<Live<Option<Value>>, String> {
    match (serde_json::from_str::<String>(text), limit.form) {
        (Ok(text), _) if text == NONE && limit.lift != Lift::Never => Ok(Live::Set(None)),
        (Ok(text), form) => form.read(&text).map(|value| Live::Set(Some(value))),
        (Err(_), Form::Rate) => Err(format!("must be text, not {}", sort(text.as_bytes()))),
        (Err(_), form) => Err(form.rule()),
    }
}

/// What may be said instead of a value.
fn further(limit: &Limit) -> String {
    match (limit.form, limit.lift) {
        (Form::Number { .. }, Lift::Never) => format!(", or {BACK} to go back"),
        (Form::Number { .. }, _) => format!(", null for no bound, or {BACK} to go back"),
        (Form::Duration, Lift::Never) => format!(", or null or {BACK} for the configuration's value"),
        (Form::Duration, _) => format!(", or none, or null or {BACK} for the configuration's value"),
        (Form::Rate, _) => format!(", none, or {BACK} to go back"),
    }
}

impl Object<'_> {
    /// Every limit, as [`Fields::limits`] reads it.
    pub fn limits<S: Limited>(&mut self) {
        for limit in S::limits() {
            let lifted = match (limit.form, limit.lift) {
                (_, Lift::Never) => "",
                (Form::Number { .. }, _) => "; null lifts it",
                (Form::Duration, _) => "; `none` lifts it, null goes back to the configuration's value",
                (Form::Rate, _) => "; `none` lifts it",
            };
            self.field(limit.name, schema(limit), &format!("{}{lifted}", limit.about));
        }
    }
}

fn schema(limit: &Limit) -> Json {
    match (limit.form, limit.lift) {
        (Form::Number { max }, Lift::Never) => {
            json!({ "type": ["integer", "string"], "minimum": 1, "maximum": max, "pattern": "^configured$" })
        }
        (Form::Number { max }, _) => {
            json!({ "type": ["integer", "null", "string"], "minimum": 1, "maximum": max, "pattern": "^configured$" })
        }
        (Form::Duration, _) => {
            json!({ "type": ["string", "null"], "examples": ["90s", "PT10M", "none", "configured"] })
        }
        (Form::Rate, _) => {
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
        Form::Number { max } if none => settings::Form::CountOrNone { min: 1, max },
        Form::Number { max } => settings::Form::Count { min: 1, max },
        Form::Duration if none => settings::Form::DurationOrNone { min_ms: 1 },
        Form::Duration => settings::Form::Duration { min_ms: 1 },
        Form::Rate => settings::Form::RateOrNone,
    }
}

impl SettingValue {
    /// As a limit; `none` is nothing.
    pub fn limit(&self) -> Option<Value> {
        match self {
            SettingValue::Count(count) => Some(Value::Number(*count)),
            SettingValue::Duration(duration) => Some(Value::Duration(*duration)),
            SettingValue::Rate(rate) => Some(Value::Rate(*rate)),
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

    fn read<S: Limited>(name: &'static str, value: &Json) -> Result<Option<Live<Option<Value>>>, String> {
        let body = json!({ name: value }).to_string();
        let mut fields = Fields::read(body.as_bytes(), "").unwrap();
        let said = fields.limits::<S>().get(name);
        fields.end().map(|()| said).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn what_null_says_depends_on_the_form() {
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
