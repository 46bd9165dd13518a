//! Values of limits: how they are written, kept and told, and how they stand in the fields of specs and updates.

use std::fmt;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::rate::BadRate;
use crate::store::{Live, StoreError};
use crate::time::micros;
use crate::{Rate, duration};

/// What a value looks like, and its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// From 1.
    Number {
        max: u64,
    },
    /// Above 0.
    Duration,
    Rate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Duration(Duration),
    Rate(Rate),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Duration(value) => f.write_str(&duration::format(*value)),
            Value::Rate(rate) => rate.fmt(f),
        }
    }
}

impl Value {
    /// As the audit has it.
    pub fn told(self) -> Json {
        match self {
            Value::Number(number) => json!(number),
            Value::Duration(value) => json!(micros(value) / 1_000),
            Value::Rate(rate) => json!(rate.to_string()),
        }
    }

    /// As a column or a layer keeps it: a number, a number of microseconds, or text.
    pub fn stored(self) -> Json {
        match self {
            Value::Number(number) => json!(i64::try_from(number).unwrap_or(i64::MAX)),
            Value::Duration(value) => json!(micros(value).max(1)),
            Value::Rate(rate) => json!(rate.to_string()),
        }
    }
}

impl Form {
    /// `Err` is the broken rule.
    pub fn read(self, text: &str) -> Result<Value, String> {
        let read = match self {
            Form::Number { max } => {
                text.parse().ok().filter(|number| (1..=max).contains(number)).map(Value::Number)
            }
            Form::Duration => {
                duration::parse(text).ok().filter(|value| !value.is_zero()).map(Value::Duration)
            }
            Form::Rate => {
                return text.parse().map(Value::Rate).map_err(|error: BadRate| error.to_string());
            }
        };
        read.ok_or_else(|| self.rule())
    }

    pub fn rule(self) -> String {
        match self {
            Form::Number { max } => format!("must be 1 to {max}"),
            Form::Duration => "must be a duration above 0 such as 90s".to_owned(),
            Form::Rate => "must be a rate such as 500/s".to_owned(),
        }
    }

    /// The other way of [`Value::stored`]; `null` is no value.
    pub fn kept(self, stored: &Json) -> Result<Option<Value>, StoreError> {
        let number = || stored.as_i64().and_then(|number| u64::try_from(number).ok());
        let value = match self {
            _ if stored.is_null() => return Ok(None),
            Form::Number { .. } => number().map(Value::Number),
            Form::Duration => number().map(|micros| Value::Duration(Duration::from_micros(micros))),
            Form::Rate => stored.as_str().and_then(|text| text.parse().ok()).map(Value::Rate),
        };
        value.map(Some).ok_or_else(|| StoreError::Corrupt { what: format!("a limit is kept as {stored}") })
    }
}

/// A field that holds a limit.
pub(super) trait Field: Copy {
    fn value(self) -> Option<Value>;

    /// Nothing where the field cannot hold it.
    fn of(value: Option<Value>) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Field for $number {
            fn value(self) -> Option<Value> {
                Some(Value::Number(self.into()))
            }

            fn of(value: Option<Value>) -> Option<$number> {
                match value {
                    Some(Value::Number(number)) => number.try_into().ok(),
                    _ => None,
                }
            }
        })*
    };
}

numbers!(u16, u32, u64);

impl Field for Duration {
    fn value(self) -> Option<Value> {
        Some(Value::Duration(self))
    }

    fn of(value: Option<Value>) -> Option<Duration> {
        match value {
            Some(Value::Duration(value)) => Some(value),
            _ => None,
        }
    }
}

impl Field for Rate {
    fn value(self) -> Option<Value> {
        Some(Value::Rate(self))
    }

    fn of(value: Option<Value>) -> Option<Rate> {
        match value {
            Some(Value::Rate(rate)) => Some(rate),
            _ => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn value(self) -> Option<Value> {
        self.and_then(T::value)
    }

    fn of(value: Option<Value>) -> Option<Option<T>> {
        match value {
            None => Some(None),
            value => T::of(value).map(Some),
        }
    }
}

/// Leaves a field that cannot hold the value.
pub(super) fn put<T: Field>(field: &mut T, value: Option<Value>) {
    if let Some(value) = T::of(value) {
        *field = value;
    }
}

pub(super) fn said<T: Field>(field: Option<Live<T>>) -> Option<Live<Option<Value>>> {
    field.map(|live| live.map(T::value))
}

pub(super) fn say<T: Field>(field: &mut Option<Live<T>>, live: Live<Option<Value>>) {
    match live {
        Live::Configured => *field = Some(Live::Configured),
        Live::Set(value) => {
            if let Some(value) = T::of(value) {
                *field = Some(Live::Set(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_and_read_back() {
        for (form, text, kept) in [
            (Form::Number { max: 9 }, "7", json!(7)),
            (Form::Duration, "1m30s", json!(90_000_000)),
            (Form::Rate, "500/s", json!("500/s")),
        ] {
            let value = form.read(text).unwrap();
            assert_eq!((value.stored(), value.to_string()), (kept.clone(), text.to_owned()));
            assert_eq!(form.kept(&kept).unwrap(), Some(value));
            assert_eq!(form.kept(&Json::Null).unwrap(), None);
            assert!(form.kept(&json!(true)).is_err());
        }
        assert_eq!(Form::Number { max: 9 }.read("10").unwrap_err(), "must be 1 to 9");
        assert_eq!(Form::Duration.read("0s").unwrap_err(), "must be a duration above 0 such as 90s");
    }
}
