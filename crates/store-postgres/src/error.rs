//! Maps the driver's errors to [`StoreError`].
//!
//! Owns the meaning of SQLSTATE codes: what is worth a retry, what an operator has to fix. Never retries.

use windlass_core::StoreError;

pub(crate) const STORE: &str = "Postgres";
/// The driver retries while the server refuses, and reports no cause when its time is up.
const NO_CONNECTION: &str = "no connection was free within `database.acquire_timeout`: the server does not answer, or all \
                             connections of the pool are in use (`database.pool`)";
const TOO_LONG: &str = "the server stopped it: statement timeout (`database.statement_timeout`); another session may hold a lock it \
                        needs (`pg_blocking_pids` shows which)";

/// For `map_err`: adds the name of the operation.
pub(crate) fn failed(op: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| translate(op, error)
}

pub(crate) fn translate(op: &'static str, error: sqlx::Error) -> StoreError {
    let code = code(&error);
    if let sqlx::Error::PoolTimedOut = error {
        return StoreError::Unavailable { store: STORE, op, source: NO_CONNECTION.into() };
    }
    let source = Box::new(error);
    match source.as_ref() {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            StoreError::Unavailable { store: STORE, op, source }
        }
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            StoreError::Corrupt { what: format!("{op}: {source}") }
        }
        _ => from_code(op, &code, source),
    }
}

fn from_code(op: &'static str, code: &str, source: Box<sqlx::Error>) -> StoreError {
    match code {
        "53100" => StoreError::Full { op, source },
        // The server reports an I/O error instead of crashing. It is unknown whether its last writes are durable.
        "58030" | "XX001" | "XX002" => StoreError::Broken { op, source },
        // An operator's cancel has the same code.
        "57014" if source.to_string().contains("statement timeout") => {
            StoreError::Busy { op, source: TOO_LONG.into() }
        }
        // Lock timeout, deadlock, serialization failure, statement timeout: the same call may succeed later.
        "55P03" | "40P01" | "40001" | "57014" => StoreError::Busy { op, source },
        // A missing table, schema or column.
        "42P01" | "3F000" | "42703" => StoreError::SchemaMissing,
        // Shutting down, starting up, out of connections or memory, or a standby after a failover.
        "57P01" | "57P02" | "57P03" | "53300" | "53200" | "25006" => {
            StoreError::Unavailable { store: STORE, op, source }
        }
        code if code.starts_with("23") => StoreError::Constraint { op, source },
        code if code.starts_with("08") => StoreError::Unavailable { store: STORE, op, source },
        _ => StoreError::Other { store: STORE, op, source },
    }
}

/// The SQLSTATE; empty when the error is not from the server.
pub(crate) fn code(error: &sqlx::Error) -> String {
    error.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned()).unwrap_or_default()
}

/// Another session won a race; a retry succeeds.
pub(crate) fn is_conflict(error: &StoreError) -> bool {
    matches!(busy_code(error).as_str(), "40P01" | "40001")
}

/// The lock timeout expired.
pub(crate) fn is_locked_out(error: &StoreError) -> bool {
    busy_code(error) == "55P03"
}

fn busy_code(error: &StoreError) -> String {
    match error {
        StoreError::Busy { source, .. } => source.downcast_ref::<sqlx::Error>().map(code).unwrap_or_default(),
        _ => String::new(),
    }
}

/// A new job got an id that is in use, which happens after the database's clock was set back. The next try gets other
/// ids. Does not match keys that the caller chose.
pub(crate) fn is_id_taken(error: &StoreError) -> bool {
    let StoreError::Constraint { source, .. } = error else { return false };
    source
        .downcast_ref::<sqlx::Error>()
        .and_then(sqlx::Error::as_database_error)
        .is_some_and(|e| e.is_unique_violation() && e.constraint().is_some_and(guards_job_id))
}

/// Partitions of `jobs` name their primary keys after themselves.
fn guards_job_id(constraint: &str) -> bool {
    matches!(constraint, "ready_id" | "ready_pkey")
        || constraint.starts_with("jobs_") && constraint.ends_with("_pkey")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_ids_are_drawn_again() {
        for ours in ["jobs_d20260101_pkey", "jobs_default_pkey", "jobs_pkey", "ready_id", "ready_pkey"] {
            assert!(guards_job_id(ours), "{ours}");
        }
        for other in ["ready_unique", "idempotency_pkey", "finished_d20260101_pkey", "claims_pkey"] {
            assert!(!guards_job_id(other), "{other}");
        }
    }
}
