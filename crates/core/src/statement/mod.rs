//! SQL text of packs: splitting, validation and rendering for a database.
//!
//! Parses just enough SQL to tell names from literals. A pack writes one text for both databases: `$1` for values and
//! `windlass.<pack>_x` for its tables. Syntax errors are left to the database.

mod check;
mod piece;
mod render;

pub use check::{Asks, only_reads, prepared};
pub use piece::{Kind, Piece, pieces};
pub use render::{Dialect, render};

/// Prefix of our names in SQL texts: `windlass.`, a schema on Postgres.
pub const SCHEMA: &str = "windlass";
