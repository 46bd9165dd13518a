//! Questions and answers about backups: the fifth part of the store contract.

use async_trait::async_trait;

use crate::backup::{Batch, Holdings, Row, Table};
use crate::{StoreError, Time};

#[async_trait]
pub trait BackupStore: Send + Sync {
    /// Everything of `holdings` as it is at one moment, while others go on writing. A leased job is exported as waiting where
    /// it stood, its attempt not counted; one whose twin waits already, as superseded. Refuses when the database has tables of
    /// a pack that is not among them, or has them in another version.
    async fn export(&self, holdings: &Holdings) -> Result<Box<dyn Export>, StoreError>;

    /// Takes rows into a database that has the schema, the packs of `holdings` and nothing else ([`StoreError::NotEmpty`]). All
    /// or nothing: what is dropped before its end leaves no trace.
    async fn import(&self, holdings: &Holdings) -> Result<Box<dyn Import>, StoreError>;

    /// Remembers a copy, or that it was verified. A copy is known by its digest, wherever its file goes.
    async fn note_backup(&self, note: &BackupNote) -> Result<(), StoreError>;

    /// Newest first.
    async fn backups(&self, limit: u32) -> Result<Vec<BackupNote>, StoreError>;

    /// False when it is not known.
    async fn forget_backup(&self, digest: &str) -> Result<bool, StoreError>;
}

#[async_trait]
pub trait Export: Send {
    fn taken_at(&self) -> Time;

    fn schema(&self) -> i64;

    /// The next rows, table after table in the order of the list; a table without rows does not appear.
    async fn next(&mut self) -> Result<Option<Batch>, StoreError>;
}

#[async_trait]
pub trait Import: Send {
    /// `columns` says which columns of the table the rows have, in their order.
    async fn put(
        &mut self,
        table: &'static Table,
        columns: &[usize],
        rows: Vec<Row>,
    ) -> Result<(), StoreError>;

    /// Lets the numbering go on above everything restored, and commits.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// A copy that was made of this database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupNote {
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// Where its file was put.
    pub file: String,
    pub taken_at: Time,
    pub rows: u64,
    pub bytes: u64,
    /// When it was last restored to scratch and found equal.
    pub verified_at: Option<Time>,
}
