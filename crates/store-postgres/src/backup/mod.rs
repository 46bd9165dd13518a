//! Backups: the rows of one moment going out, rows coming into an empty schema, and which copies were made.
//!
//! Owns the longest transaction there is: an export holds its snapshot until its end. Never writes a file of its own;
//! what the rows become is the engine's business.

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
