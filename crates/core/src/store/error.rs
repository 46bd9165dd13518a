//! Why a store could not do what it was asked, and what the caller may do about it.

use crate::input::shown;
use crate::{JobId, KeyUse};

type Source = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or dropped the connection; the outcome of a write is unknown.
    #[error("{store} is not reachable while trying to {op}")]
    Unavailable { store: &'static str, op: &'static str, source: Source },

    #[error("the disk is full: {op} was not written; free space and try again, no restart is needed")]
    Full { op: &'static str, source: Source },

    /// The disk refused to keep a commit. Nothing more is written until a restart: a second fsync may lie.
    #[error("the disk failed while trying to {op}; nothing was acknowledged. Check the disk, then restart")]
    Broken { op: &'static str, source: Source },

    /// Somebody, in this process or another, held what the call needs for too long; the source says who and what to do.
    #[error("could not {op} in time: the database was busy")]
    Busy { op: &'static str, source: Source },

    /// Or half of one: a step is being taken back or applied.
    #[error("the database has no Windlass schema, or not all of it; run `windlass migrate up`")]
    SchemaMissing,

    #[error("the schema is at version {found}, this binary needs {needed}; run `windlass migrate up`")]
    SchemaOld { found: i64, needed: i64 },

    #[error("the schema is at version {found}, this binary knows up to {known}; use a newer windlass")]
    SchemaNew { found: i64, known: i64 },

    #[error(
        "the migration {version} in the database is not the one this binary carries; it was changed after release"
    )]
    SchemaChanged { version: i64 },

    #[error("the tables of pack `{pack}` {trouble}")]
    PackSchema { pack: String, trouble: PackTrouble },

    #[error(
        "the database has tables of pack `{pack}`, which this binary does not have; use one that has it, or take its steps back \
         first"
    )]
    UnknownPack { pack: String },

    #[error(
        "`{what}` of pack `{pack}` is in no list of what a backup holds; the pack has to list it, or copies would lack it"
    )]
    NotHeld { pack: String, what: String },

    #[error("packs still have tables: {}; take their steps back first, with a binary that has them", packs.join(", "))]
    PacksLeft { packs: Vec<String> },

    #[error("idempotency key `{}` was used for another payload ({existing})", shown(key))]
    IdempotencyMismatch { key: String, existing: KeyUse },

    #[error("unique key `{}` is held by job {existing}, which waits or whose window is not over", shown(key))]
    UniqueRejected { key: String, existing: JobId },

    #[error("a kind stays in its queue: {}", moved.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    KindsMoved { moved: Vec<KindMoved> },

    #[error("a budget keeps its currency: `{budget}` is in {stored} and cannot change to {wanted}")]
    CurrencyChanged { budget: String, stored: String, wanted: String },

    #[error("the database is not empty: its table `{table}` has rows; nothing was written")]
    NotEmpty { table: &'static str },

    /// The caller's transaction cannot carry the write.
    #[error("this transaction cannot be used: {why}; {remedy}")]
    WrongTransaction { why: String, remedy: &'static str },

    /// Its text or its values, whatever is in the database.
    #[error("this statement cannot be run: {why}; {remedy}")]
    WrongStatement { why: String, remedy: &'static str },

    #[error(
        "the transaction of pack `{pack}` was open for too long and was rolled back; do slow work before it begins"
    )]
    TransactionTooLong { pack: String },

    /// A unique key that is taken, a check that does not hold, a reference to nothing: the source says which.
    #[error("could not {op}: a rule of the tables forbids it")]
    Constraint { op: &'static str, source: Source },

    #[error("stored data cannot be read: {what}")]
    Corrupt { what: String },

    #[error("could not open {what}: {why}")]
    Open { what: String, why: String },

    #[error("{store} refused to {op}")]
    Other { store: &'static str, op: &'static str, source: Source },
}

/// What is wrong with the tables of a pack, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackTrouble {
    #[error("are missing; run `windlass migrate up`")]
    Missing,
    #[error("are at version {found}, this binary needs {needed}; run `windlass migrate up`")]
    Old { found: i64, needed: i64 },
    #[error("are at version {found}, this binary knows up to {known}; use a newer windlass")]
    New { found: i64, known: i64 },
    #[error(
        "were made by a step {version} that is not the one this binary carries; it was changed after release"
    )]
    Changed { version: i64 },
}

/// A kind that was asked to change its queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{kind}` belongs to {stored} and cannot move to {wanted}")]
pub struct KindMoved {
    pub kind: String,
    pub stored: String,
    pub wanted: String,
}

impl StoreError {
    /// The same call may succeed later without anybody changing it.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Unavailable { .. } | StoreError::Full { .. } | StoreError::Busy { .. })
    }

    /// The error with its causes, for a log line or a terminal.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            // Drivers wrap an error in one that says the same.
            let said = cause.to_string();
            if !text.ends_with(&said) {
                text.push_str(": ");
                text.push_str(&said);
            }
            source = cause.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the driver says: {0}")]
    struct Wrapped(#[source] std::io::Error);

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::other("too slow");
        let error = StoreError::Busy { op: "claim", source: Box::new(Wrapped(cause())) };
        assert_eq!(
            error.chain(),
            "could not claim in time: the database was busy: the driver says: too slow"
        );
        let error = StoreError::Busy { op: "claim", source: Box::new(cause()) };
        assert_eq!(error.chain(), "could not claim in time: the database was busy: too slow");
    }
}
