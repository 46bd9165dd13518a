//! Why an operator's action was refused.

use windlass_core::{Invalid, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    #[error(transparent)]
    Invalid(#[from] Invalid),

    /// Its object does not exist.
    #[error("{0}")]
    Missing(String),

    /// The present state does not allow it; `code` is for programs.
    #[error("{why}")]
    Conflict { code: &'static str, why: String },

    #[error("{}", .0.chain())]
    Store(#[from] StoreError),
}
