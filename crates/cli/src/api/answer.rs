//! Reads responses of routes: fields of JSON objects, and failures from problems.

use std::time::Duration;

use serde_json::Value;
use windlass_core::Time;
use windlass_pack::StatusCode;
use windlass_pack::api::{Api, ApiError, ApiRequest};
use windlass_pack::verb::VerbError;

use super::verbs::into_failure;
use crate::failure::{During, Failure};
use crate::output::Output;

/// A response, parsed and as the original bytes.
pub(crate) struct Answered {
    pub(crate) value: Value,
    pub(crate) status: StatusCode,
    body: Vec<u8>,
}

impl Answered {
    /// The original text: long numbers keep their digits.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The same object with one more field.
    pub(crate) fn with(mut self, field: &str, value: Value) -> Answered {
        let end = self.body.trim_ascii_end().len();
        if let Value::Object(object) = &mut self.value
            && !object.is_empty()
        {
            self.body.truncate(end.saturating_sub(1));
            self.body.extend(format!(",{}:{value}}}", Value::from(field)).into_bytes());
            object.insert(field.to_owned(), value);
        }
        self
    }

    pub(crate) fn print(&self, output: &Output) -> Result<(), Failure> {
        output.json_text(&self.text())
    }
}

pub(crate) async fn ask(api: &dyn Api, request: ApiRequest) -> Result<Answered, ApiError> {
    let (value, answer) = api.send(request).await?.checked()?;
    Ok(Answered { value, status: answer.status, body: answer.body })
}

/// The text of a field; empty if missing.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

pub(crate) fn optional_text(value: &Value, field: &str) -> Option<String> {
    value[field].as_str().map(str::to_owned)
}

pub(crate) fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// A number, or a dash if missing.
pub(crate) fn figure(value: &Value, field: &str) -> String {
    value[field].as_u64().map_or_else(dash, |number| number.to_string())
}

pub(crate) fn dash() -> String {
    "–".to_owned()
}

/// A time in seconds. Out-of-range values count as missing, because a server may send anything.
pub(crate) fn span(value: &Value, field: &str) -> Option<Duration> {
    let micros = value[field].as_f64().filter(|seconds| (0.0..1e12).contains(seconds))? * 1e6;
    Some(Duration::from_micros(micros.round() as u64))
}

pub(crate) fn time(value: &Value, field: &str) -> Option<Time> {
    value[field].as_str()?.parse().ok()
}

pub(crate) fn items(value: &Value) -> &[Value] {
    list(value, "items")
}

pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn texts(value: &Value, field: &str) -> Vec<String> {
    list(value, field).iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

impl<T> During<T> for Result<T, ApiError> {
    fn during(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| into_failure(VerbError::of(what, error)))
    }
}
