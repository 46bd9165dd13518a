//! SQL statements of packs: the same text and values for both databases.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{StoreError, Time};

/// A value of a parameter or a column.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// Takes the type its position requires.
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// 0 or 1 on SQLite.
    Bool(bool),
    /// Microseconds as an integer on SQLite, `timestamptz` on Postgres.
    Time(Time),
}

impl SqlValue {
    /// For error messages.
    fn kind(&self) -> &'static str {
        match self {
            SqlValue::Null => "null",
            SqlValue::Int(_) => "an integer",
            SqlValue::Real(_) => "a real number",
            SqlValue::Text(_) => "text",
            SqlValue::Bytes(_) => "bytes",
            SqlValue::Bool(_) => "a boolean",
            SqlValue::Time(_) => "a time",
        }
    }
}

macro_rules! from {
    ($($from:ty => $make:expr),* $(,)?) => {
        $(impl From<$from> for SqlValue {
            fn from(value: $from) -> SqlValue {
                $make(value)
            }
        })*
    };
}

from! {
    i64 => SqlValue::Int,
    i32 => |value| SqlValue::Int(i64::from(value)),
    u32 => |value| SqlValue::Int(i64::from(value)),
    f64 => SqlValue::Real,
    &str => |value: &str| SqlValue::Text(value.to_owned()),
    String => SqlValue::Text,
    Vec<u8> => SqlValue::Bytes,
    bool => SqlValue::Bool,
    Time => SqlValue::Time,
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> SqlValue {
        value.map_or(SqlValue::Null, Into::into)
    }
}

/// A type a column can be read as. SQLite has no booleans or times, and an empty sum is an integer there. So integers
/// are converted to the requested type.
pub trait FromSql: Sized {
    /// For error messages.
    const WANTED: &'static str;

    /// `None` if the value has another type.
    fn from_sql(value: &SqlValue) -> Option<Self>;
}

macro_rules! from_sql {
    ($($to:ty, $wanted:literal, { $($arm:tt)* };)*) => {
        $(impl FromSql for $to {
            const WANTED: &'static str = $wanted;

            fn from_sql(value: &SqlValue) -> Option<$to> {
                match value {
                    $($arm)*
                    _ => None,
                }
            }
        })*
    };
}

from_sql! {
    i64, "an integer", { SqlValue::Int(number) => Some(*number), };
    f64, "a real number", {
        SqlValue::Real(number) => Some(*number),
        // Larger integers would lose precision.
        SqlValue::Int(number) if number.unsigned_abs() <= 1 << 53 => Some(*number as f64),
    };
    String, "text", { SqlValue::Text(text) => Some(text.clone()), };
    Vec<u8>, "bytes", { SqlValue::Bytes(bytes) => Some(bytes.clone()), };
    bool, "a boolean", {
        SqlValue::Bool(flag) => Some(*flag),
        SqlValue::Int(flag @ (0 | 1)) => Some(*flag == 1),
    };
    Time, "a time", {
        SqlValue::Time(time) => Some(*time),
        SqlValue::Int(micros) => Some(Time(*micros)),
    };
}

impl<T: FromSql> FromSql for Option<T> {
    const WANTED: &'static str = T::WANTED;

    fn from_sql(value: &SqlValue) -> Option<Option<T>> {
        match value {
            SqlValue::Null => Some(None),
            value => T::from_sql(value).map(Some),
        }
    }
}

/// A result row. Name expressions with `as`: the databases choose different default names.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlRow {
    columns: Arc<[String]>,
    values: Vec<SqlValue>,
}

impl SqlRow {
    /// One value per column. All rows of a result share the names.
    pub fn new(columns: Arc<[String]>, values: Vec<SqlValue>) -> SqlRow {
        SqlRow { columns, values }
    }

    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    pub fn value(&self, column: &str) -> Option<&SqlValue> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.values.get(at)
    }

    pub fn get<T: FromSql>(&self, column: &str) -> Result<T, StoreError> {
        let corrupt = |what| Err(StoreError::Corrupt { what });
        let Some(value) = self.value(column) else {
            let known = self.columns.join(", ");
            return corrupt(format!("there is no column `{column}` in the answer, which has {known}"));
        };
        match T::from_sql(value) {
            Some(got) => Ok(got),
            None => corrupt(format!("column `{column}` is {}, not {}", value.kind(), T::WANTED)),
        }
    }
}

/// Statements in a transaction, or read-only ones. Both databases take the same text: `$1` for values, tables as
/// `windlass.<pack>_x`, `returning`, `on conflict`, JSON as text, `cast(x as bigint)`. One statement per call.
///
/// After an error the transaction must be rolled back: Postgres accepts no further statements. Use `on conflict` where
/// a conflict is expected.
#[async_trait]
pub trait Sql: Send {
    /// Runs a statement and returns the number of rows changed.
    async fn run(&mut self, text: &str, values: &[SqlValue]) -> Result<u64, StoreError>;

    /// Returns the rows of a `select` or a `returning` clause.
    async fn rows(&mut self, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: impl Into<SqlValue>) -> SqlRow {
        SqlRow::new(vec!["a".to_owned(), "x".to_owned()].into(), vec![SqlValue::Null, value.into()])
    }

    fn why<T: FromSql + std::fmt::Debug>(row: &SqlRow, column: &str) -> String {
        row.get::<T>(column).unwrap_err().to_string()
    }

    #[test]
    fn an_integer_is_converted_to_the_requested_type() {
        assert_eq!(row(7).get::<i64>("x").unwrap(), 7);
        assert_eq!(row(7).get::<Time>("x").unwrap(), Time(7));
        assert_eq!(row(7).get::<f64>("x").unwrap(), 7.0);
        assert!(row(1).get::<bool>("x").unwrap());
        assert!(why::<bool>(&row(2), "x").contains("`x` is an integer, not a boolean"));
        assert!(
            why::<f64>(&row((1_i64 << 53) + 1), "x").contains("not a real number"),
            "it would lose precision"
        );
        assert!(row(i64::MAX).get::<f64>("x").is_err());
    }

    #[test]
    fn errors_name_the_wrong_type_or_unknown_column() {
        assert!(why::<i64>(&row("7"), "x").contains("`x` is text, not an integer"));
        assert!(why::<String>(&row(None::<i64>), "x").contains("`x` is null, not text"));
        assert_eq!(row(None::<i64>).get::<Option<String>>("x").unwrap(), None);
        assert_eq!(row("t").get::<Option<String>>("x").unwrap().as_deref(), Some("t"));
        let unknown = why::<i64>(&row(1), "y");
        assert!(unknown.contains("no column `y`") && unknown.contains("a, x"), "{unknown}");
    }
}
