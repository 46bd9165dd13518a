//! Tables of packs, as numbered migrations. Owns the form of a step and its rules; the stores run it.

mod check;

pub use check::check_steps;

use crate::Time;
use crate::migration::{Step, Steps};

/// One migration of a pack's tables and its reverse.
///
/// Name tables, views and indexes `windlass.<pack>_x`. A text may contain several statements. The types `bigint`,
/// `double precision`, `text`, `boolean`, `timestamptz` and `bytea` work on both databases: SQLite accepts any type
/// name unless the table is `strict`, and stores values as given. On SQLite, a primary key needs `not null`, unless its
/// type is exactly `integer`. Generated keys differ (`bigint generated always as identity`, `integer primary key
/// autoincrement`): take ids from the application, or use [`SqlText::Each`].
#[derive(Clone, Copy, Debug)]
pub struct PackStep {
    pub version: i64,
    pub name: &'static str,
    pub up: SqlText,
    pub down: SqlText,
}

/// One text for both databases, or one each with a reason.
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

/// A pack's steps for one database.
pub fn steps(pack: &str, steps: &[PackStep], text: fn(&SqlText) -> &'static str) -> Steps {
    let step = |step: &PackStep| Step {
        version: step.version,
        name: step.name,
        up: text(&step.up),
        down: text(&step.down),
    };
    Steps { pack: Some(pack.to_owned()), steps: steps.iter().map(step).collect() }
}

/// An applied step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackMigration {
    pub pack: String,
    pub version: i64,
    pub name: String,
    pub applied_at: Time,
}
