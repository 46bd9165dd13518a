//! Backups: exporting the rows of one moment, importing rows into an empty file, and the list of backups made.
//!
//! Owns the only long-lived reader: an export holds its snapshot until it ends, and the log grows by what is
//! written meanwhile. Never writes a backup file: that is the engine's task.

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
