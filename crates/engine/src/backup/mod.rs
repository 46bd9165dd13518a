//! Backups as files: written while a server works, restored into an empty database, verified by restoring them.
//!
//! Owns files and their integrity. A copy gets its name only when it is whole and on the disk. Never holds a table in
//! memory and knows no SQL; `core::backup` has the list of tables and the format of a line.

mod compare;
mod error;
mod folder;
mod locked;
mod read;
mod write;

pub use compare::verify;
pub use error::BackupError;
pub use folder::{BackupFolder, TooOld, Verified, last_verified, too_old};
pub use locked::{LockedFile, is_old, is_unique, unique};
pub use read::{Contents, inspect, restore};
pub use write::{Written, write};

/// Called with the rows and bytes of the file so far.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);
