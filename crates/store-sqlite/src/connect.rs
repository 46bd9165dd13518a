//! Opening and configuring connections to the file.
//!
//! Owns: the pragmas, the busy handler, and the errors for unusable paths. Writes nothing before it is clear that
//! the file and its folder are writable.

use std::cell::Cell;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Access, AtFlags, CWD};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use windlass_core::StoreError;

use crate::gate::PATIENCE;

/// Modes of what is created: for the owner alone.
const OWNER_FOLDER: u32 = 0o700;
const OWNER_FILE: u32 = 0o600;

const STATEMENTS: usize = 128;
/// KiB of page cache per connection. SQLite takes KiB as a negative number.
const CACHE: &str = "-16384";
/// The log file is cut to this size when it restarts.
const LOG_BYTES: &str = "67108864";

pub(crate) fn refuse(path: &Path, why: impl Into<String>) -> StoreError {
    StoreError::Open { what: format!("the database {}", path.display()), why: why.into() }
}

/// Checks that the file exists or may be created, and is writable.
pub(crate) fn prepare(path: &Path, create: bool) -> Result<(), StoreError> {
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(refuse(path, "a file name is needed; an in-memory store would lose every job at exit"));
    }
    if path.is_dir() {
        return Err(refuse(path, "it is a folder; name a file in it, such as windlass.db"));
    }
    if !path.exists() {
        if !create {
            return Err(refuse(path, "there is no such file; check the path, or allow it to be created"));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(OWNER_FOLDER).create(folder);
            made.map_err(|error| refuse(path, folder_trouble(folder, &error)))?;
        }
        // Payloads are nobody else's business. SQLite gives its other files the mode of this one, and reports why it
        // cannot be created.
        let _ = OpenOptions::new().write(true).create_new(true).mode(OWNER_FILE).open(path);
        return Ok(());
    }
    // Checked without opening the file: closing any descriptor of it drops every lock of this process on it.
    // Connections that are already open, ours or the application's, would lose their protection.
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

/// A connection for writing or checkpointing.
pub(crate) fn writing(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.execute_batch(&format!("pragma journal_size_limit = {LOG_BYTES}"))?;
    Ok(connection)
}

pub(crate) fn reading(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    // No URI: any path is taken literally. No mutex: each connection stays on its thread.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(retry_busy))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise SQLite parses a cached statement again whenever its LIMIT is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(&format!(
        "pragma journal_mode = wal; pragma temp_store = memory; pragma cache_size = {CACHE}; pragma foreign_keys = on;"
    ))?;
    Ok(connection)
}

thread_local! {
    /// When the current wait on this thread began, and the deadline if one is set.
    static WAIT: Cell<(Option<Instant>, Option<Instant>)> = const { Cell::new((None, None)) };
}

/// Sets the deadline for waits on this thread. Without one, each wait lasts [`PATIENCE`]. SQLite takes only a plain
/// function as busy handler, so the deadline is kept in a thread local.
pub(crate) fn wait_until(deadline: Option<Instant>) {
    WAIT.set((None, deadline));
}

/// The busy handler: SQLite calls it while another connection holds the lock.
pub(crate) fn retry_busy(tries: i32) -> bool {
    const NAP: Duration = Duration::from_millis(1);
    let (begun, deadline) = WAIT.get();
    let begun = begun.filter(|_| tries > 0).unwrap_or_else(Instant::now);
    WAIT.set((Some(begun), deadline));
    if Instant::now() >= deadline.unwrap_or(begun + PATIENCE) {
        return false;
    }
    thread::sleep(NAP);
    true
}

/// A caller's transaction runs on a connection of the caller's driver.
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
