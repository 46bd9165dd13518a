//! A caller's sqlx connection as a rusqlite one.
//!
//! Owns: the only unsafe block. Both drivers link the same libsqlite3-sys (otherwise the types below would not
//! match), so `enqueue_in` and `settle_in` run exactly the writer's code. Never closes or keeps the handle.

#![allow(unsafe_code)]

use rusqlite::Connection;
use sqlx::sqlite::LockedSqliteHandle;

/// Lends the connection behind `handle` to `work`.
pub(crate) fn lend<T>(
    handle: &mut LockedSqliteHandle<'_>,
    work: impl FnOnce(&Connection) -> T,
) -> rusqlite::Result<T> {
    let raw = handle.as_raw_handle().as_ptr();
    // SAFETY: the handle is open for as long as the lock borrows its connection, and sqlx's own thread does not use
    // it during that time. `from_handle` does not own: dropping it finalizes its own statements and leaves the
    // database open. It cannot outlive this call, because `work` only borrows it.
    let connection = unsafe { Connection::from_handle(raw) }?;
    Ok(work(&connection))
}
