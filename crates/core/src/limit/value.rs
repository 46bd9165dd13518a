//! Values of limits: parsing, storage and display.

use std::fmt;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::rate::BadRate;
use crate::store::StoreError;
use crate::time::micros;
use crate::{Rate, duration};

/// The type of a limit's value and its allowed range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitForm {
    /// 1 to `max`.
    Number {
        max: u64,
    },
    /// Above 0.
    Duration,
    Rate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitValue {
    Number(u64),
    Duration(Duration),
    Rate(Rate),
}

impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitValue::Number(number) => number.fmt(f),
            LimitValue::Duration(value) => f.write_str(&duration::format(*value)),
            LimitValue::Rate(rate) => rate.fmt(f),
        }
    }
}

impl LimitValue {
    /// For audit records; durations in milliseconds.
    pub fn audit_value(self) -> Json {
        match self {
            LimitValue::Number(number) => json!(number),
            LimitValue::Duration(value) => json!(micros(value) / 1_000),
            LimitValue::Rate(rate) => json!(rate.to_string()),
        }
    }

    /// As stored in a column or layer: a number, microseconds, or text.
    pub fn stored(self) -> Json {
        match self {
            LimitValue::Number(number) => json!(i64::try_from(number).unwrap_or(i64::MAX)),
            LimitValue::Duration(value) => json!(micros(value).max(1)),
            LimitValue::Rate(rate) => json!(rate.to_string()),
        }
    }
}

impl LimitForm {
    /// `Err` is the rule that was violated.
    pub fn read(self, text: &str) -> Result<LimitValue, String> {
        let read = match self {
            LimitForm::Number { max } => {
                text.parse().ok().filter(|number| (1..=max).contains(number)).map(LimitValue::Number)
            }
            LimitForm::Duration => {
                duration::parse(text).ok().filter(|value| !value.is_zero()).map(LimitValue::Duration)
            }
            LimitForm::Rate => {
                return text.parse().map(LimitValue::Rate).map_err(|error: BadRate| error.to_string());
            }
        };
        read.ok_or_else(|| self.rule())
    }

    pub fn rule(self) -> String {
        match self {
            LimitForm::Number { max } => format!("must be 1 to {max}"),
            LimitForm::Duration => "must be a duration above 0 such as 90s".to_owned(),
            LimitForm::Rate => "must be a rate such as 500/s".to_owned(),
        }
    }

    /// Reads [`LimitValue::stored`]; `null` means no limit.
    pub fn from_stored(self, stored: &Json) -> Result<Option<LimitValue>, StoreError> {
        let number = || stored.as_i64().and_then(|number| u64::try_from(number).ok());
        let value = match self {
            _ if stored.is_null() => return Ok(None),
            LimitForm::Number { .. } => number().map(LimitValue::Number),
            LimitForm::Duration => number().map(|micros| LimitValue::Duration(Duration::from_micros(micros))),
            LimitForm::Rate => stored.as_str().and_then(|text| text.parse().ok()).map(LimitValue::Rate),
        };
        value.map(Some).ok_or_else(|| StoreError::Corrupt { what: format!("a limit is kept as {stored}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_are_read_back() {
        for (form, text, stored) in [
            (LimitForm::Number { max: 9 }, "7", json!(7)),
            (LimitForm::Duration, "1m30s", json!(90_000_000)),
            (LimitForm::Rate, "500/s", json!("500/s")),
        ] {
            let value = form.read(text).unwrap();
            assert_eq!((value.stored(), value.to_string()), (stored.clone(), text.to_owned()));
            assert_eq!(form.from_stored(&stored).unwrap(), Some(value));
            assert_eq!(form.from_stored(&Json::Null).unwrap(), None);
            assert!(form.from_stored(&json!(true)).is_err());
        }
        assert_eq!(LimitForm::Number { max: 9 }.read("10").unwrap_err(), "must be 1 to 9");
        assert_eq!(LimitForm::Duration.read("0s").unwrap_err(), "must be a duration above 0 such as 90s");
    }
}
