//! Conversion of values between `windlass-core` and Postgres.
//!
//! Owns the encoding of times and the reading of columns. Times are sent as binary `timestamptz` (microseconds since
//! 2000-01-01), without a date library. Never decides anything.

use std::time::Duration;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{
    PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueFormat, PgValueRef, Postgres,
};
use sqlx::{Decode, Encode, Row, Type};
use windlass_core::sweep::Suspicion;
use windlass_core::time::micros;
use windlass_core::{StoreError, Time};

/// 2000-01-01 in microseconds since 1970.
const PG_EPOCH: i64 = 946_684_800_000_000;
/// The range of `timestamptz`, counted from 2000-01-01; the codes for infinity are outside.
const PG_MIN: i64 = -211_813_488_000_000_000;
const PG_MAX: i64 = 9_223_371_331_199_999_999;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PgTime(pub(crate) Time);

impl Type<Postgres> for PgTime {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for PgTime {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("_timestamptz")
    }
}

impl Encode<'_, Postgres> for PgTime {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros = self.0.0.saturating_sub(PG_EPOCH).clamp(PG_MIN, PG_MAX);
        Encode::<Postgres>::encode(micros, buf)
    }

    fn size_hint(&self) -> usize {
        size_of::<i64>()
    }
}

impl<'r> Decode<'r, Postgres> for PgTime {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let micros: i64 = Decode::<Postgres>::decode(value)?;
                Ok(PgTime(Time(micros.saturating_add(PG_EPOCH))))
            }
            PgValueFormat::Text => Err("a timestamptz arrived as text".into()),
        }
    }
}

/// The physical address of a row (`tid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PgAddress {
    pub(crate) page: u32,
    pub(crate) line: u16,
}

/// By OID: each session would have to look up a name.
impl Type<Postgres> for PgAddress {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(27))
    }
}

impl PgHasArrayType for PgAddress {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1010))
    }
}

impl Encode<'_, Postgres> for PgAddress {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buf.extend_from_slice(&self.page.to_be_bytes());
        buf.extend_from_slice(&self.line.to_be_bytes());
        Ok(IsNull::No)
    }

    fn size_hint(&self) -> usize {
        size_of::<u32>() + size_of::<u16>()
    }
}

impl<'r> Decode<'r, Postgres> for PgAddress {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let [a, b, c, d, e, f] = *value.as_bytes()?.as_array().ok_or("a tid has six bytes")?;
        Ok(PgAddress { page: u32::from_be_bytes([a, b, c, d]), line: u16::from_be_bytes([e, f]) })
    }
}

/// A century. Longer is as good as never, and such an `interval` would overflow and fail the whole batch.
const DELAY_MAX: i64 = 36_525 * 86_400_000_000;

/// A delay in microseconds that Postgres can add to a time.
pub(crate) fn delay_in(delay: Duration) -> i64 {
    micros(delay).min(DELAY_MAX)
}

/// One column, with its name in the error.
pub(crate) fn get<'r, T>(row: &'r PgRow, column: &str) -> Result<T, StoreError>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(column).map_err(|e| StoreError::Corrupt { what: format!("column {column}: {e}") })
}

pub(crate) fn at<'r, T>(row: &'r PgRow, index: usize) -> Result<T, StoreError>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(index).map_err(|e| StoreError::Corrupt { what: format!("column {index}: {e}") })
}

pub(crate) fn time(row: &PgRow, column: &str) -> Result<Time, StoreError> {
    get::<PgTime>(row, column).map(|t| t.0)
}

pub(crate) fn time_or_none(row: &PgRow, column: &str) -> Result<Option<Time>, StoreError> {
    get::<Option<PgTime>>(row, column).map(|t| t.map(|t| t.0))
}

/// A `bigint` that is never negative.
pub(crate) fn count(row: &PgRow, column: &str) -> Result<u64, StoreError> {
    let value: i64 = get(row, column)?;
    u64::try_from(value).map_err(|_| StoreError::Corrupt { what: format!("column {column} is {value}") })
}

/// A `smallint` that is never negative.
pub(crate) fn small(row: &PgRow, column: &str) -> Result<u16, StoreError> {
    let value: i16 = get(row, column)?;
    u16::try_from(value).map_err(|_| StoreError::Corrupt { what: format!("column {column} is {value}") })
}

/// An optional limit.
pub(crate) fn most(row: &PgRow, column: &str) -> Result<Option<u32>, StoreError> {
    let value: Option<i64> = get(row, column)?;
    value
        .map(u32::try_from)
        .transpose()
        .map_err(|_| StoreError::Corrupt { what: format!("column {column} is not a valid limit") })
}

pub(crate) fn priority(row: &PgRow, column: &str) -> Result<u8, StoreError> {
    let value: i16 = get(row, column)?;
    u8::try_from(value).map_err(|_| StoreError::Corrupt { what: format!("column {column} is {value}") })
}

pub(crate) fn duration_or_none(row: &PgRow, column: &str) -> Result<Option<Duration>, StoreError> {
    get::<Option<i64>>(row, column).map(|us| us.map(from_micros))
}

pub(crate) fn from_micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Input limits keep attempt numbers in range; a larger one is stored as the maximum.
pub(crate) fn small_in(value: u16) -> i16 {
    i16::try_from(value).unwrap_or(i16::MAX)
}

pub(crate) fn big_in(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Postgres text cannot contain NUL; a handler's message may.
pub(crate) fn text_in(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// An array literal: `unnest` flattens nested arrays, so inner arrays are sent as text.
pub(crate) fn text_array<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from("{");
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        out.push('"');
        for c in text_in(item).chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push('}');
    out
}

/// A column of a batch. If every value is absent the array is empty: `unnest` pads short arrays with nulls.
pub(crate) fn sparse<T>(column: Vec<Option<T>>) -> Vec<Option<T>> {
    if column.iter().any(Option::is_some) { column } else { Vec::new() }
}

/// A level of suspicion.
pub(crate) fn level(stored: i16) -> Suspicion {
    Suspicion::new(u8::try_from(stored).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_arrays_are_quoted() {
        assert_eq!(text_array(["a", r#"b"\,"#]), r#"{"a","b\"\\,"}"#);
        assert_eq!(text_array([]), "{}");
    }

    #[test]
    fn a_column_without_values_is_an_empty_array() {
        assert!(sparse::<i64>(vec![None, None]).is_empty());
        assert_eq!(sparse(vec![None, Some(1)]).len(), 2);
    }
}
