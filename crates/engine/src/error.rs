//! Errors of the engine.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::input::shown;
use windlass_core::{Invalid, JobId, KeyUse, StoreError};

#[derive(Clone, Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error(transparent)]
    Invalid(#[from] Invalid),

    #[error(
        "queue {queue} holds {cap} waiting jobs, its cap; try again in {}s or raise it with `windlass queues set`",
        retry_after.as_secs()
    )]
    DepthCap { queue: String, cap: u64, retry_after: Duration },

    #[error("idempotency key `{}` was used for another payload ({existing})", shown(key))]
    IdempotencyMismatch { key: String, existing: KeyUse },

    #[error(
        "unique key `{}` is held by job {existing}, which is waiting or whose window is not over",
        shown(key)
    )]
    UniqueRejected { key: String, existing: JobId },

    /// A job that runs before its enqueue returns cannot be one that exists only after a commit.
    #[error(
        "test mode Inline cannot run a job enqueued in a transaction: it exists only after the commit, and its handler \
         would wait for the caller; build with TestMode::Off and call drain() after the commit"
    )]
    InlineInTransaction,

    /// Shared because one failed commit answers every caller in it.
    #[error("{}", .0.chain())]
    Store(Arc<StoreError>),
}

impl From<StoreError> for EnqueueError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::IdempotencyMismatch { key, existing } => {
                EnqueueError::IdempotencyMismatch { key, existing }
            }
            StoreError::UniqueRejected { key, existing } => EnqueueError::UniqueRejected { key, existing },
            other => EnqueueError::Store(Arc::new(other)),
        }
    }
}

/// Why a worker or client could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{}", .0.chain())]
    Store(#[from] StoreError),
}
