//! A statement as text: what it is made of, whether it may be run, and how a database wants it written.
//!
//! Owns the reading of SQL far enough to tell names from literals. A pack writes one text for both databases: `$1` for values
//! and `windlass.<pack>_x` for its tables. Never runs anything, and knows no grammar: what is wrong with a statement is
//! the database's to say.

mod check;
mod piece;
mod render;

pub use check::{Asks, only_reads, prepared};
pub use piece::{Kind, Piece, pieces};
pub use render::{Dialect, render};

/// How names of ours begin in a text: `windlass.`, a schema on Postgres.
pub const SCHEMA: &str = "windlass";
