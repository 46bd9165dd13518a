//! Statements of packs. In a transaction they run on its connection; each read runs in a read-only transaction.
//!
//! Owns the conversion of values to and from Postgres. Never keeps a connection between two reads.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgRow, PgTypeInfo};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Column, Encode, PgConnection, Postgres, Row, Type, TypeInfo, ValueRef};
use windlass_core::statement::{Asks, Dialect, only_reads, prepared};
use windlass_core::store::{Sql, SqlRow, SqlValue};
use windlass_core::{StoreError, TxRef};

use crate::error::{code, failed, translate};
use crate::row::PgTime;
use crate::{PostgresStore, tx};

const RUN: &str = "run a statement";
const ROWS: &str = "read rows";

/// On the connection of a transaction.
pub(crate) struct PgSql<'c> {
    connection: &'c mut PgConnection,
    schema: &'c str,
    /// A caller's own connection may have no open transaction, which has to be checked.
    unchecked: bool,
}

/// One short transaction per statement.
struct Reading(PostgresStore);

impl<'c> PgSql<'c> {
    /// For a connection that is known to be in a transaction.
    pub(crate) fn new(connection: &'c mut PgConnection, schema: &'c str) -> PgSql<'c> {
        PgSql { connection, schema, unchecked: false }
    }

    async fn check(&mut self) -> Result<(), StoreError> {
        if self.unchecked {
            tx::savepoint(self.connection).await?;
            tx::release(self.connection).await?;
            self.unchecked = false;
        }
        Ok(())
    }
}

impl PostgresStore {
    pub(crate) fn do_sql_in<'a>(&'a self, tx: TxRef<'a>) -> Result<Box<dyn Sql + 'a>, StoreError> {
        Ok(Box::new(PgSql { connection: tx::connection(tx)?, schema: &self.schema, unchecked: true }))
    }

    pub(crate) fn read_sql(&self) -> Box<dyn Sql> {
        Box::new(Reading(self.clone()))
    }
}

#[async_trait]
impl Sql for PgSql<'_> {
    async fn run(&mut self, text: &str, values: &[SqlValue]) -> Result<u64, StoreError> {
        let text = prepared(text, values, Asks::Run, Dialect::Postgres { schema: self.schema })?;
        self.check().await?;
        let done = bound(text, values).execute(&mut *self.connection).await;
        Ok(done.map_err(|error| refused(RUN, error))?.rows_affected())
    }

    async fn rows(&mut self, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let text = prepared(text, values, Asks::Rows, Dialect::Postgres { schema: self.schema })?;
        self.check().await?;
        let rows = bound(text, values).fetch_all(&mut *self.connection).await;
        answer(&rows.map_err(|error| refused(ROWS, error))?)
    }
}

#[async_trait]
impl Sql for Reading {
    async fn run(&mut self, _: &str, _: &[SqlValue]) -> Result<u64, StoreError> {
        Err(only_reads())
    }

    async fn rows(&mut self, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let text = prepared(text, values, Asks::Read, Dialect::Postgres { schema: &self.0.schema })?;
        let mut tx = self.0.pool.begin_with("begin read only").await.map_err(failed(ROWS))?;
        let rows =
            bound(text, values).fetch_all(&mut *tx).await.map_err(|error| match code(&error).as_str() {
                // Differs from SQLite: here a `with` query of a `select` may write, and functions may.
                "25006" => StoreError::WrongStatement {
                    why: "it writes, and `read` is for reads".to_owned(),
                    remedy: "use a transaction: `begin`, then `sql`",
                },
                _ => refused(ROWS, error),
            })?;
        tx.commit().await.map_err(failed(ROWS))?;
        answer(&rows)
    }
}

/// A missing table or column in a pack's statement is the pack's error. The server's message explains it better than
/// one about our schema.
pub(crate) fn refused(op: &'static str, error: sqlx::Error) -> StoreError {
    match code(&error).as_str() {
        "42P01" | "3F000" | "42703" => {
            StoreError::Other { store: crate::error::STORE, op, source: error.into() }
        }
        _ => translate(op, error),
    }
}

/// A null of any type that the server infers.
struct Untyped;

impl Type<Postgres> for Untyped {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Untyped {
    fn encode_by_ref(&self, _: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Ok(IsNull::Yes)
    }
}

fn bound(mut text: String, values: &[SqlValue]) -> Query<'_, Postgres, PgArguments> {
    // The driver caches prepared statements by their text alone, and the server derives parameter types from the first
    // values. A statement that was first run with a null would misread the bytes of the next value. So the types
    // become part of the text.
    text.push_str("\n--");
    text.extend(values.iter().map(letter));
    // The text is the pack's own; external values are bound.
    values.iter().fold(sqlx::query(AssertSqlSafe(text)), |query, value| match value {
        SqlValue::Null => query.bind(Untyped),
        SqlValue::Int(number) => query.bind(*number),
        SqlValue::Real(number) => query.bind(*number),
        SqlValue::Text(text) => query.bind(text.as_str()),
        SqlValue::Bytes(bytes) => query.bind(bytes.as_slice()),
        SqlValue::Bool(flag) => query.bind(*flag),
        SqlValue::Time(time) => query.bind(PgTime(*time)),
    })
}

/// A letter for the type that a value is sent with.
fn letter(value: &SqlValue) -> char {
    match value {
        SqlValue::Null => 'n',
        SqlValue::Int(_) => 'i',
        SqlValue::Real(_) => 'r',
        SqlValue::Text(_) => 't',
        SqlValue::Bytes(_) => 'b',
        SqlValue::Bool(_) => 'f',
        SqlValue::Time(_) => 'm',
    }
}

fn answer(rows: &[PgRow]) -> Result<Vec<SqlRow>, StoreError> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let names: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    rows.iter().map(|row| Ok(SqlRow::new(names.clone(), values_of(row)?))).collect()
}

fn values_of(row: &PgRow) -> Result<Vec<SqlValue>, StoreError> {
    let corrupt =
        |column: &str, why: String| StoreError::Corrupt { what: format!("column `{column}`: {why}") };
    let columns = row.columns().iter().enumerate();
    columns
        .map(|(at, column)| match value_of(row, at, column.type_info().name()) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => {
                let name = column.type_info().name();
                Err(corrupt(
                    column.name(),
                    format!("its type {name} is not supported; cast it, for example to text"),
                ))
            }
            Err(error) => Err(corrupt(column.name(), error.to_string())),
        })
        .collect()
}

/// `None` for a type that only Postgres has.
fn value_of(row: &PgRow, at: usize, name: &str) -> Result<Option<SqlValue>, sqlx::Error> {
    let raw = row.try_get_raw(at)?;
    let null = raw.is_null();
    let bytes = || raw.as_bytes().map_err(sqlx::Error::Decode);
    Ok(Some(match name {
        "INT2" | "INT4" | "INT8" | "FLOAT4" | "FLOAT8" | "TEXT" | "VARCHAR" | "NAME" | "JSON" | "JSONB"
        | "UUID" | "BYTEA" | "BOOL" | "TIMESTAMPTZ"
            if null =>
        {
            SqlValue::Null
        }
        "INT2" => SqlValue::Int(row.try_get::<i16, _>(at)?.into()),
        "INT4" => SqlValue::Int(row.try_get::<i32, _>(at)?.into()),
        "INT8" => SqlValue::Int(row.try_get(at)?),
        "FLOAT4" => SqlValue::Real(row.try_get::<f32, _>(at)?.into()),
        "FLOAT8" => SqlValue::Real(row.try_get(at)?),
        "TEXT" | "VARCHAR" | "NAME" | "JSON" => SqlValue::Text(row.try_get_unchecked(at)?),
        // The first byte is the format version.
        "JSONB" => {
            SqlValue::Text(String::from_utf8_lossy(bytes()?.get(1..).unwrap_or_default()).into_owned())
        }
        "UUID" => SqlValue::Text(uuid(bytes()?)),
        "BYTEA" => SqlValue::Bytes(row.try_get(at)?),
        "BOOL" => SqlValue::Bool(row.try_get(at)?),
        "TIMESTAMPTZ" => SqlValue::Time(row.try_get::<PgTime, _>(at)?.0),
        _ => return Ok(None),
    }))
}

fn uuid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        text.push_str(if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" });
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
