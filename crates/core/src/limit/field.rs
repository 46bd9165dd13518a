//! Conversion between limit values and the typed fields of specs and updates.

use std::time::Duration;

use super::LimitValue;
use crate::Rate;
use crate::store::Live;

/// The type of a field that holds a limit.
pub(super) trait Field: Copy {
    fn value(self) -> Option<LimitValue>;

    /// `None` if this type cannot hold the value.
    fn of(value: Option<LimitValue>) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Field for $number {
            fn value(self) -> Option<LimitValue> {
                Some(LimitValue::Number(self.into()))
            }

            fn of(value: Option<LimitValue>) -> Option<$number> {
                match value {
                    Some(LimitValue::Number(number)) => number.try_into().ok(),
                    _ => None,
                }
            }
        })*
    };
}

numbers!(u16, u32, u64);

impl Field for Duration {
    fn value(self) -> Option<LimitValue> {
        Some(LimitValue::Duration(self))
    }

    fn of(value: Option<LimitValue>) -> Option<Duration> {
        match value {
            Some(LimitValue::Duration(value)) => Some(value),
            _ => None,
        }
    }
}

impl Field for Rate {
    fn value(self) -> Option<LimitValue> {
        Some(LimitValue::Rate(self))
    }

    fn of(value: Option<LimitValue>) -> Option<Rate> {
        match value {
            Some(LimitValue::Rate(rate)) => Some(rate),
            _ => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn value(self) -> Option<LimitValue> {
        self.and_then(T::value)
    }

    fn of(value: Option<LimitValue>) -> Option<Option<T>> {
        match value {
            None => Some(None),
            value => T::of(value).map(Some),
        }
    }
}

/// No effect if the field cannot hold the value.
pub(super) fn put<T: Field>(field: &mut T, value: Option<LimitValue>) {
    if let Some(value) = T::of(value) {
        *field = value;
    }
}

pub(super) fn live_change<T: Field>(field: Option<Live<T>>) -> Option<Live<Option<LimitValue>>> {
    field.map(|live| live.map(T::value))
}

pub(super) fn set_live_change<T: Field>(field: &mut Option<Live<T>>, live: Live<Option<LimitValue>>) {
    match live {
        Live::Configured => *field = Some(Live::Configured),
        Live::Set(value) => {
            if let Some(value) = T::of(value) {
                *field = Some(Live::Set(value));
            }
        }
    }
}
