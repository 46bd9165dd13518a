//! What a pack brings to the database: its tables, in numbered steps.
//!
//! Owns the shape of a step and the rules it has to keep. Never runs one.

mod check;

pub use check::check_steps;

use crate::Time;
use crate::migration::{Step, Steps};

/// One change of a pack's tables and the way back.
///
/// Tables, views and indexes are written `windlass.<pack>_x`, an index too, and a text may hold several statements. The
/// type words `bigint`, `double precision`, `text`, `boolean`, `timestamptz` and `bytea` do for both databases: SQLite takes
/// any word as a type as long as the table is not `strict`, and keeps what it is given. There a key that is not `not null`
/// may be null, unless its type is exactly `integer`. Numbers that the database gives are written differently (`bigint
/// generated always as identity`, `integer primary key autoincrement`): take ids from the application, or write an `Each`.
#[derive(Clone, Copy, Debug)]
pub struct PackStep {
    pub version: i64,
    pub name: &'static str,
    pub up: SqlText,
    pub down: SqlText,
}

/// The same text for both, or one each with the reason.
#[derive(Clone, Copy, Debug)]
pub enum SqlText {
    Same(&'static str),
    Each { sqlite: &'static str, postgres: &'static str, because: &'static str },
}

impl SqlText {
    pub fn on_sqlite(&self) -> &'static str {
        match self {
            SqlText::Same(text) => text,
            SqlText::Each { sqlite, .. } => sqlite,
        }
    }

    pub fn on_postgres(&self) -> &'static str {
        match self {
            SqlText::Same(text) => text,
            SqlText::Each { postgres, .. } => postgres,
        }
    }
}

/// A pack's steps as one database takes them.
pub fn steps(pack: &str, steps: &[PackStep], text: fn(&SqlText) -> &'static str) -> Steps {
    let step = |step: &PackStep| Step {
        version: step.version,
        name: step.name,
        up: text(&step.up),
        down: text(&step.down),
    };
    Steps { pack: Some(pack.to_owned()), steps: steps.iter().map(step).collect() }
}

/// A step that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackMigration {
    pub pack: String,
    pub version: i64,
    pub name: String,
    pub applied_at: Time,
}
