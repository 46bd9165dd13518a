//! The backup part of the store contract.

use async_trait::async_trait;

use crate::backup::{Batch, Holdings, Row, Table};
use crate::{StoreError, Time};

#[async_trait]
pub trait BackupStore: Send + Sync {
    /// Exports the tables in `holdings` from one snapshot, without blocking writers. A leased job is exported as
    /// waiting, without its current attempt. If another job with its unique key is already waiting, it is exported as
    /// superseded. Fails if the database has tables of a pack that is not in `holdings`, or in another version.
    async fn export(&self, holdings: &Holdings) -> Result<Box<dyn Export>, StoreError>;

    /// Opens an import into a database that has the schema and packs of `holdings` but no rows
    /// ([`StoreError::NotEmpty`]). All or nothing: an import dropped before [`Import::finish`] writes nothing.
    async fn import(&self, holdings: &Holdings) -> Result<Box<dyn Import>, StoreError>;

    /// Records a backup, or that it was verified. The digest identifies it, so the file may be moved.
    async fn note_backup(&self, note: &BackupNote) -> Result<(), StoreError>;

    /// Newest first.
    async fn backups(&self, limit: u32) -> Result<Vec<BackupNote>, StoreError>;

    /// False if there is no such backup.
    async fn forget_backup(&self, digest: &str) -> Result<bool, StoreError>;
}

#[async_trait]
pub trait Export: Send {
    fn taken_at(&self) -> Time;

    fn schema(&self) -> i64;

    /// The next rows, table by table in the order of the list. Empty tables are left out.
    async fn next(&mut self) -> Result<Option<Batch>, StoreError>;
}

#[async_trait]
pub trait Import: Send {
    /// `columns` are the indexes of the table's columns that the rows contain, in that order.
    async fn put(
        &mut self,
        table: &'static Table,
        columns: &[usize],
        rows: Vec<Row>,
    ) -> Result<(), StoreError>;

    /// Moves the sequences above everything restored, and commits.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// A backup of this database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupNote {
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// Where the file was written.
    pub file: String,
    pub taken_at: Time,
    pub rows: u64,
    pub bytes: u64,
    /// When it was last restored to a scratch database and found equal.
    pub verified_at: Option<Time>,
}
