//! Why a backup was not made, not restored, or not verified.

use std::io;
use std::path::{Path, PathBuf};

use windlass_core::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("could not {op} {}: {source}", path.display())]
    File { op: &'static str, path: PathBuf, source: io::Error },

    #[error("{} is there already", path.display())]
    Exists { path: PathBuf },

    /// The file is not a whole backup, or not one this binary can read.
    #[error("{} cannot be used: {why}", path.display())]
    Broken { path: PathBuf, why: String },

    /// The file is a backup that another binary can read.
    #[error("{} cannot be used: {why}", path.display())]
    Unfit { path: PathBuf, why: String },

    /// The file was restored, and the result is not what the file holds.
    #[error("{} does not restore to what it holds: {why}", path.display())]
    Differs { path: PathBuf, why: String },

    #[error("{}", _0.chain())]
    Store(StoreError),
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> BackupError {
        BackupError::Store(error)
    }
}

impl BackupError {
    pub(super) fn file(op: &'static str, path: &Path) -> impl Fn(io::Error) -> BackupError {
        let path = path.to_owned();
        move |source| BackupError::File { op, path: path.clone(), source }
    }

    pub(super) fn broken(path: &Path, why: impl Into<String>) -> BackupError {
        BackupError::Broken { path: path.to_owned(), why: why.into() }
    }
}
