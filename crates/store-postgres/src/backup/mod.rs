//! Backups: exporting the rows of one moment, importing rows into an empty schema, and the list of backups made.
//!
//! Owns the longest transaction: an export holds its snapshot until it ends. Never writes a backup file: that is the
//! engine's task.

mod export;
mod import;
mod note;

use async_trait::async_trait;
use windlass_core::StoreError;
use windlass_core::backup::Holdings;
use windlass_core::store::{BackupNote, BackupStore, Export, Import};

use crate::PostgresStore;

#[async_trait]
impl BackupStore for PostgresStore {
    async fn export(&self, holdings: &Holdings) -> Result<Box<dyn Export>, StoreError> {
        self.begin_export(holdings).await
    }

    async fn import(&self, holdings: &Holdings) -> Result<Box<dyn Import>, StoreError> {
        self.begin_import(holdings).await
    }

    async fn note_backup(&self, note: &BackupNote) -> Result<(), StoreError> {
        self.put_note(note).await
    }

    async fn backups(&self, limit: u32) -> Result<Vec<BackupNote>, StoreError> {
        self.list_notes(limit).await
    }

    async fn forget_backup(&self, digest: &str) -> Result<bool, StoreError> {
        self.forget_note(digest).await
    }
}
