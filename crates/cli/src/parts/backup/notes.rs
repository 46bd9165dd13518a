//! Backups recorded in the database.

use std::path::Path;

use windlass_core::store::BackupNote;
use windlass_core::{Store, StoreError, Time};
use windlass_engine::backup::Written;

pub(crate) fn noted(file: &Path, written: &Written) -> BackupNote {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    BackupNote {
        digest: written.digest.clone(),
        file: file.display().to_string(),
        taken_at: written.taken_at,
        rows: written.rows,
        bytes: written.bytes,
        verified_at: None,
    }
}

/// False if the backup is unknown.
pub(crate) async fn mark_verified(store: &dyn Store, digest: &str, at: Time) -> Result<bool, StoreError> {
    let notes = store.backups(u32::MAX).await?;
    let Some(note) = notes.into_iter().find(|note| note.digest == digest) else { return Ok(false) };
    store.note_backup(&BackupNote { verified_at: Some(at), ..note }).await?;
    Ok(true)
}
