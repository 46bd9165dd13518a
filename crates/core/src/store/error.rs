//! What can go wrong in a store, and what the caller can do about it.

use crate::input::shown;
use crate::{JobId, KeyUse};

type Source = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or dropped the connection. Whether a write took effect is unknown.
    #[error("{store} is not reachable while trying to {op}")]
    Unavailable { store: &'static str, op: &'static str, source: Source },

    #[error("the disk is full: {op} was not written; free space and try again, no restart is needed")]
    Full { op: &'static str, source: Source },

    /// The disk failed to persist a commit. All writes stop until a restart, because a repeated fsync may report
    /// success falsely.
    #[error("the disk failed while trying to {op}; nothing was acknowledged. Check the disk, then restart")]
    Broken { op: &'static str, source: Source },

    /// A lock was held for too long, here or in another process. The source says by what, and what to do.
    #[error("could not {op} in time: the database was busy")]
    Busy { op: &'static str, source: Source },

    /// Or an incomplete one: a migration is in progress.
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
        "the database has tables of pack `{pack}`, which this binary does not have; use one that has it, or revert its migrations first"
    )]
    UnknownPack { pack: String },

    #[error(
        "`{what}` of pack `{pack}` is not listed for backups; the pack must list it, or backups would lack it"
    )]
    NotHeld { pack: String, what: String },

    #[error("packs still have tables: {}; revert their migrations first, with a binary that has them", packs.join(", "))]
    PacksLeft { packs: Vec<String> },

    #[error("idempotency key `{}` was used for another payload ({existing})", shown(key))]
    IdempotencyMismatch { key: String, existing: KeyUse },

    #[error(
        "unique key `{}` is held by job {existing}, which is waiting or whose window is not over",
        shown(key)
    )]
    UniqueRejected { key: String, existing: JobId },

    #[error("a kind stays in its queue: {}", moved.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    KindsMoved { moved: Vec<KindMoved> },

    #[error("a budget keeps its currency: `{budget}` is in {stored} and cannot change to {wanted}")]
    CurrencyChanged { budget: String, stored: String, wanted: String },

    #[error("the database is not empty: its table `{table}` has rows; nothing was written")]
    NotEmpty { table: &'static str },

    #[error("this transaction cannot be used: {why}; {remedy}")]
    WrongTransaction { why: String, remedy: &'static str },

    /// The text or values of a pack's statement are invalid, whatever the database contains.
    #[error("this statement cannot be run: {why}; {remedy}")]
    WrongStatement { why: String, remedy: &'static str },

    #[error(
        "the transaction of pack `{pack}` was open for too long and was rolled back; do slow work before it begins"
    )]
    TransactionTooLong { pack: String },

    /// A unique key, check or foreign key was violated; the source says which.
    #[error("could not {op}: it violates a constraint")]
    Constraint { op: &'static str, source: Source },

    #[error("stored data cannot be read: {what}")]
    Corrupt { what: String },

    #[error("could not open {what}: {why}")]
    Open { what: String, why: String },

    #[error("{store} refused to {op}")]
    Other { store: &'static str, op: &'static str, source: Source },
}

/// What is wrong with the tables of a pack, and what to do.
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

/// A kind whose queue cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{kind}` belongs to {stored} and cannot move to {wanted}")]
pub struct KindMoved {
    pub kind: String,
    pub stored: String,
    pub wanted: String,
}

impl StoreError {
    /// The same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Unavailable { .. } | StoreError::Full { .. } | StoreError::Busy { .. })
    }

    /// The error with its causes, for logs and terminals.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            // Drivers often wrap an error in one with the same text.
            let cause_text = cause.to_string();
            if !text.ends_with(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
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
    fn a_cause_is_not_repeated() {
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
