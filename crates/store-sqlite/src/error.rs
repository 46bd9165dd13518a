//! Maps SQLite's result codes to the contract's errors.
//!
//! Owns: the one mapping, for rusqlite and for sqlx. Never decides whether the store is broken permanently: the
//! writer does, because only a failed write or sync means that.

use std::time::Duration;

use rusqlite::ErrorCode;
use windlass_core::{StoreError, duration};

pub(crate) const STORE: &str = "sqlite";

/// An error inside a command, before the name of the operation is known.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Store(StoreError),
}

pub(crate) type Answer<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Store(error)
    }
}

impl Fault {
    pub(crate) fn corrupt(what: impl Into<String>) -> Fault {
        Fault::Store(StoreError::Corrupt { what: what.into() })
    }

    pub(crate) fn named(self, op: &'static str) -> StoreError {
        match self {
            Fault::Store(error) => error,
            Fault::Sql(error) => from_sql(op, error),
        }
    }

    /// A read, a write or a sync failed on disk.
    pub(crate) fn is_io(&self) -> bool {
        match self {
            Fault::Sql(error) => is_io(error),
            Fault::Store(error) => matches!(error, StoreError::Broken { .. }),
        }
    }
}

impl Fault {
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Fault::Sql(error) => error.sqlite_error_code() == Some(ErrorCode::DiskFull),
            Fault::Store(error) => matches!(error, StoreError::Full { .. }),
        }
    }
}

pub(crate) fn is_io(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

pub(crate) fn from_sql(op: &'static str, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { op, source: error.into() },
        Some(ErrorCode::SystemIoFailure) => StoreError::Broken { op, source: error.into() },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Busy { op, source: error.into() }
        }
        Some(ErrorCode::ConstraintViolation) => StoreError::Constraint { op, source: error.into() },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { what: error.to_string() }
        }
        _ if lacks_schema(&error) => StoreError::SchemaMissing,
        _ => StoreError::Other { store: STORE, op, source: error.into() },
    }
}

/// The database lacks our tables, or some of their columns or indexes.
fn lacks_schema(error: &rusqlite::Error) -> bool {
    let text = error.to_string();
    let signs = [
        "no such table: windlass_",
        "no such table: main.windlass_",
        "no such column: ",
        "no such index: windlass_",
        " has no column named ",
    ];
    signs.iter().any(|sign| text.contains(sign))
}

pub(crate) fn from_sqlx(op: &'static str, error: sqlx::Error) -> StoreError {
    let code = match &error {
        sqlx::Error::Database(database) => database.code().and_then(|code| code.parse::<i32>().ok()),
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed => {
            return StoreError::Unavailable { store: STORE, op, source: error.into() };
        }
        _ => None,
    };
    // The low byte of an extended code is the primary code.
    match code.map(|code| code & 0xff) {
        Some(rusqlite::ffi::SQLITE_FULL) => StoreError::Full { op, source: error.into() },
        Some(rusqlite::ffi::SQLITE_IOERR) => StoreError::Broken { op, source: error.into() },
        Some(rusqlite::ffi::SQLITE_BUSY | rusqlite::ffi::SQLITE_LOCKED) => {
            StoreError::Busy { op, source: error.into() }
        }
        Some(rusqlite::ffi::SQLITE_CONSTRAINT) => StoreError::Constraint { op, source: error.into() },
        _ => StoreError::Other { store: STORE, op, source: error.into() },
    }
}

/// A program that does not use the gate holds SQLite's own lock.
pub(crate) fn held_outside(patience: Duration) -> String {
    format!(
        "another program held the database's write lock for {} (`database.statement_timeout`): perhaps a transaction \
         left open in a `sqlite3` shell or an editor, or a copy in progress; `fuser` with the file's name shows which \
         processes have it open",
        duration::format(patience)
    )
}

pub(crate) fn closed(op: &'static str) -> StoreError {
    StoreError::Unavailable { store: STORE, op, source: "the store was closed".into() }
}

pub(crate) fn other(op: &'static str, why: impl Into<String>) -> StoreError {
    StoreError::Other { store: STORE, op, source: why.into().into() }
}
