//! Backups: the rows of one moment going out, rows coming into an empty file, and which copies were made.
//!
//! Owns the only reader that stays: an export holds its snapshot until its end, and the log grows by what is written
//! meanwhile. Never writes a file of its own; what the rows become is the engine's business.

mod export;
mod import;
mod note;

use async_trait::async_trait;
use windlass_core::StoreError;
use windlass_core::backup::Holdings;
use windlass_core::store::{BackupNote, BackupStore, Export, Import};

use crate::SqliteStore;

#[async_trait]
impl BackupStore for SqliteStore {
    async fn export(&self, holdings: &Holdings) -> Result<Box<dyn Export>, StoreError> {
        self.begin_export(holdings).await
    }

    async fn import(&self, holdings: &Holdings) -> Result<Box<dyn Import>, StoreError> {
        self.begin_import(holdings).await
    }

    async fn note_backup(&self, note: &BackupNote) -> Result<(), StoreError> {
        let note = note.clone();
        self.write("note a backup", 1, move |scope| note::put(scope, &note)).await
    }

    async fn backups(&self, limit: u32) -> Result<Vec<BackupNote>, StoreError> {
        self.read("list backups", move |connection| note::list(connection, limit)).await
    }

    async fn forget_backup(&self, digest: &str) -> Result<bool, StoreError> {
        let digest = digest.to_owned();
        self.write("forget a backup", 1, move |scope| note::forget(scope, &digest)).await
    }
}
