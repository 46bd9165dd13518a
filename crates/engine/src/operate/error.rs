//! Why an operator's act was not done.

use windlass_core::{Invalid, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    #[error(transparent)]
    Invalid(#[from] Invalid),

    /// What it was to be done to is not there.
    #[error("{0}")]
    Missing(String),

    /// The state of things does not allow it; `code` says why to programs.
    #[error("{why}")]
    Conflict { code: &'static str, why: String },

    #[error("{}", .0.chain())]
    Store(#[from] StoreError),
}
