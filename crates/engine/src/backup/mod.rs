//! Backups as files: written beside a working server, read into an empty database, compared with what they became.
//!
//! Owns files and their integrity. A copy is under its name only when it is whole and on the disk. Never holds a table in
//! memory, knows no SQL, and leaves the list of tables and the lines of a file to `core::backup`.

mod compare;
mod error;
mod held;
mod read;
mod shelf;
mod write;

pub use compare::verify;
pub use error::BackupError;
pub use held::{Held, is_old, is_unique, unique};
pub use read::{Contents, inspect, restore};
pub use shelf::{Shelf, TooOld, Verified, last_verified, too_old};
pub use write::{Written, write};

/// How far it is: rows and bytes of the file so far.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);
