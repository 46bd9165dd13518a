//! Statements of packs. In a transaction they run on its connection; reads run on the reader threads.
//!
//! Owns the conversion of values to and from SQLite. Never holds a read transaction between two statements.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, params_from_iter};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Column, Row, Sqlite, TypeInfo, ValueRef as _};
use windlass_core::statement::{Asks, Dialect, only_reads, prepared};
use windlass_core::store::{Sql, SqlRow, SqlValue};
use windlass_core::{StoreError, TxRef};

use crate::error::{self, Answer, Fault, from_sqlx};
use crate::{SqliteStore, tx};

const RUN: &str = "run a statement";
const ROWS: &str = "read rows";

/// On the connection of a transaction.
pub(crate) struct SqliteSql<'c> {
    connection: &'c mut SqliteConnection,
    /// A caller's own transaction, still to be checked. It is checked on first use, because that needs the
    /// connection's thread.
    unchecked: Option<&'c SqliteStore>,
}

/// One short read transaction per statement.
struct Reading(SqliteStore);

impl<'c> SqliteSql<'c> {
    /// For a transaction that is known to be able to write.
    pub(crate) fn new(connection: &'c mut SqliteConnection) -> SqliteSql<'c> {
        SqliteSql { connection, unchecked: None }
    }

    async fn check(&mut self, op: &'static str) -> Result<(), StoreError> {
        if let Some(store) = self.unchecked {
            store.check_and_lock(op, self.connection).await?;
            self.unchecked = None;
        }
        Ok(())
    }
}

impl SqliteStore {
    pub(crate) fn sql_in<'a>(&'a self, tx: TxRef<'a>) -> Result<Box<dyn Sql + 'a>, StoreError> {
        Ok(Box::new(SqliteSql { connection: tx::connection(tx)?, unchecked: Some(self) }))
    }

    pub(crate) fn read_sql(&self) -> Result<Box<dyn Sql>, StoreError> {
        self.shared.check_open(ROWS)?;
        Ok(Box::new(Reading(self.clone())))
    }
}

#[async_trait]
impl Sql for SqliteSql<'_> {
    async fn run(&mut self, text: &str, values: &[SqlValue]) -> Result<u64, StoreError> {
        let text = prepared(text, values, Asks::Run, Dialect::Sqlite)?;
        self.check(RUN).await?;
        let done = bound(text, values).execute(&mut *self.connection).await;
        Ok(done.map_err(|error| from_sqlx(RUN, error))?.rows_affected())
    }

    async fn rows(&mut self, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let text = prepared(text, values, Asks::Rows, Dialect::Sqlite)?;
        self.check(ROWS).await?;
        let rows = bound(text, values).fetch_all(&mut *self.connection).await;
        let rows = rows.map_err(|error| from_sqlx(ROWS, error))?;
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let names: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
        rows.iter().map(|row| Ok(SqlRow::new(names.clone(), values_of(row)?))).collect()
    }
}

#[async_trait]
impl Sql for Reading {
    async fn run(&mut self, _: &str, _: &[SqlValue]) -> Result<u64, StoreError> {
        Err(only_reads())
    }

    async fn rows(&mut self, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let text = prepared(text, values, Asks::Read, Dialect::Sqlite)?;
        let values: Vec<Value> = values.iter().map(plain).collect();
        let read = move |connection: &Connection| {
            select(connection, &text, values).map_err(|fault| match fault {
                Fault::Sql(error) => of_pack(ROWS, "", error),
                fault => fault,
            })
        };
        self.0.read(ROWS, read).await
    }
}

/// A missing table or column in a pack's statement is the pack's error. SQLite's message explains it better than
/// one about our schema.
pub(crate) fn of_pack(op: &'static str, whose: &str, error: rusqlite::Error) -> Fault {
    match error.sqlite_error_code() {
        Some(ErrorCode::Unknown) => error::other(op, format!("{whose}{error}")).into(),
        _ => error.into(),
    }
}

fn select(connection: &Connection, text: &str, values: Vec<Value>) -> Answer<Vec<SqlRow>> {
    let mut statement = connection.prepare_cached(text)?;
    let names: Arc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = statement.query(params_from_iter(values))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..names.len()).map(|at| read(row.get_ref(at)?, &names[at]));
        all.push(SqlRow::new(names.clone(), values.collect::<Answer<_>>()?));
    }
    Ok(all)
}

fn plain(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Int(number) => Value::Integer(*number),
        SqlValue::Real(number) => Value::Real(*number),
        SqlValue::Text(text) => Value::Text(text.clone()),
        SqlValue::Bytes(bytes) => Value::Blob(bytes.clone()),
        SqlValue::Bool(flag) => Value::Integer(i64::from(*flag)),
        SqlValue::Time(time) => Value::Integer(time.0),
    }
}

fn read(value: ValueRef<'_>, column: &str) -> Answer<SqlValue> {
    Ok(match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => SqlValue::Text(text.to_owned()),
            Err(_) => return Err(Fault::corrupt(format!("column `{column}` is not valid UTF-8"))),
        },
        ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_vec()),
    })
}

fn bound(text: String, values: &[SqlValue]) -> Query<'_, Sqlite, SqliteArguments> {
    // The text is the pack's own; external values are bound.
    values.iter().fold(sqlx::query(AssertSqlSafe(text)), |query, value| match value {
        SqlValue::Null => query.bind(None::<i64>),
        SqlValue::Int(number) => query.bind(*number),
        SqlValue::Real(number) => query.bind(*number),
        SqlValue::Text(text) => query.bind(text.as_str()),
        SqlValue::Bytes(bytes) => query.bind(bytes.as_slice()),
        SqlValue::Bool(flag) => query.bind(*flag),
        SqlValue::Time(time) => query.bind(time.0),
    })
}

fn values_of(row: &SqliteRow) -> Result<Vec<SqlValue>, StoreError> {
    let value = |at: usize| -> Result<SqlValue, sqlx::Error> {
        let raw = row.try_get_raw(at)?;
        if raw.is_null() {
            return Ok(SqlValue::Null);
        }
        // The type of the value, not of its column: SQLite stores what it was given.
        Ok(match raw.type_info().name() {
            "INTEGER" => SqlValue::Int(row.try_get_unchecked(at)?),
            "REAL" => SqlValue::Real(row.try_get_unchecked(at)?),
            "TEXT" => SqlValue::Text(row.try_get_unchecked(at)?),
            _ => SqlValue::Bytes(row.try_get_unchecked(at)?),
        })
    };
    let name = |at: usize| row.columns()[at].name().to_owned();
    (0..row.len())
        .map(|at| value(at).map_err(|e| StoreError::Corrupt { what: format!("column `{}`: {e}", name(at)) }))
        .collect()
}
