//! How a connection to the file is opened and set.
//!
//! Owns: the pragmas, the busy handler, and the errors of a path that cannot be used. Writes nothing before it is
//! known that the file and its folder can be written.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Access, AtFlags, CWD};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use windlass_core::StoreError;

use crate::gate::PATIENCE;

const STATEMENTS: usize = 128;
/// KiB of page cache per connection, as SQLite spells it.
const CACHE: &str = "-16384";
/// The log's file is cut to this size when it starts over.
const LOG_BYTES: &str = "67108864";

pub(crate) fn refuse(path: &Path, why: impl Into<String>) -> StoreError {
    StoreError::Open { what: format!("the database {}", path.display()), why: why.into() }
}

/// Makes sure that the file can be there and be written.
pub(crate) fn prepare(path: &Path, create: bool) -> Result<(), StoreError> {
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(refuse(path, "a file name is needed; a store in memory would lose every job at exit"));
    }
    if path.is_dir() {
        return Err(refuse(path, "it is a folder; name a file in it, such as windlass.db"));
    }
    if !path.exists() {
        if !create {
            return Err(refuse(path, "there is no such file; check the path or let it be created"));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| refuse(path, folder_trouble(folder, &error)))?;
        }
        return Ok(());
    }
    // Asked and not opened: closing a descriptor of the file ends every lock this process has on it, and with them the
    // protection of connections that are open already, ours or the application's.
    let access = Access::READ_OK | Access::WRITE_OK;
    rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).map_err(|error| {
        let error = io::Error::from(error);
        let why = match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                format!("the file cannot be written ({error}); give this user write permission or mount it writable")
            }
            _ => error.to_string(),
        };
        refuse(path, why)
    })
}

pub(crate) fn folder_trouble(folder: &Path, error: &io::Error) -> String {
    let shown = folder.display();
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => format!(
            "the folder {shown} cannot be written ({error}); SQLite keeps its log beside the file, so give this user \
             write permission on the folder or choose another"
        ),
        ErrorKind::StorageFull => format!("the disk of {shown} is full; free space and try again"),
        _ => format!("the folder {shown} cannot be used: {error}"),
    }
}

/// A connection that writes, or checkpoints.
pub(crate) fn writing(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.execute_batch(&format!("pragma journal_size_limit = {LOG_BYTES}"))?;
    Ok(connection)
}

/// A connection that only reads.
pub(crate) fn reading(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    // No URI: a path is a path, whatever it contains. No mutex: each connection stays with its thread.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait_a_little))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise SQLite makes a kept statement anew whenever a bound LIMIT is bound again, and each run costs a parse.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(&format!(
        "pragma journal_mode = wal; pragma temp_store = memory; pragma cache_size = {CACHE}; pragma foreign_keys = on;"
    ))?;
    Ok(connection)
}

thread_local! {
    /// When the wait on this thread began, and when it ends if somebody said so.
    static WAIT: Cell<(Option<Instant>, Option<Instant>)> = const { Cell::new((None, None)) };
}

/// Waits on this thread end then; without a word they have the usual patience from their beginning. The handler below is a plain function to SQLite, so it cannot know the
/// store it waits for.
pub(crate) fn wait_until(deadline: Option<Instant>) {
    WAIT.set((None, deadline));
}

/// SQLite asks this while another connection holds the lock it wants.
pub(crate) fn wait_a_little(tries: i32) -> bool {
    const NAP: Duration = Duration::from_millis(1);
    let (begun, told) = WAIT.get();
    let begun = begun.filter(|_| tries > 0).unwrap_or_else(Instant::now);
    WAIT.set((Some(begun), told));
    if Instant::now() >= told.unwrap_or(begun + PATIENCE) {
        return false;
    }
    thread::sleep(NAP);
    true
}

/// A caller's transaction runs on a connection of the driver that the caller uses.
pub(crate) fn for_callers(path: &Path, patience: Duration) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(patience)
        .foreign_keys(true)
        .pragma("wal_autocheckpoint", "0")
        .pragma("temp_store", "memory")
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_bound_limit_is_not_parsed_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        for connection in [writing(&path).unwrap(), reading(&path).unwrap()] {
            let mut statement = connection.prepare("select name from sqlite_schema limit ?1").unwrap();
            for limit in 1..=3 {
                let mut rows = statement.query([limit]).unwrap();
                while rows.next().unwrap().is_some() {}
            }
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }
}
