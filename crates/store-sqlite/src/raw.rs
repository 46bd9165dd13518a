//! A caller's sqlx connection seen as a rusqlite one.
//!
//! Owns: the only unsafe block. Both drivers link the same libsqlite3-sys (the types below would not fit otherwise),
//! so `enqueue_in` and `settle_in` run exactly the code the writer runs. Never closes the handle, never keeps it.

#![allow(unsafe_code)]

use rusqlite::Connection;
use sqlx::sqlite::LockedSqliteHandle;

/// Lends the connection behind `handle` to `work`.
pub(crate) fn lend<T>(
    handle: &mut LockedSqliteHandle<'_>,
    work: impl FnOnce(&Connection) -> T,
) -> rusqlite::Result<T> {
    let raw = handle.as_raw_handle().as_ptr();
    // SAFETY: the handle is open for as long as the lock borrows its connection, and sqlx's own thread stays out of
    // it for that time. `from_handle` does not own: dropping it finalises its own statements and leaves the database
    // open. It cannot outlive this call, because `work` only borrows it.
    let connection = unsafe { Connection::from_handle(raw) }?;
    Ok(work(&connection))
}
