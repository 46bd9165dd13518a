//! The part of the store contract about tables of packs.

use async_trait::async_trait;

use crate::StoreError;
use crate::pack::{PackMigration, PackStep};

/// Pack migrations work like those of the schema: each step has its own transaction, several processes may migrate at
/// once, and a step yields to running statements. The schema must exist.
#[async_trait]
pub trait PackStore: Send + Sync {
    /// All applied steps by pack, oldest first, including packs this binary does not have.
    async fn pack_migrations(&self) -> Result<Vec<PackMigration>, StoreError>;

    /// Applies missing steps and returns their versions.
    async fn migrate_pack_up(&self, pack: &str, steps: &[PackStep]) -> Result<Vec<i64>, StoreError>;

    /// Reverts every step above `to` and returns their versions.
    async fn migrate_pack_down(
        &self,
        pack: &str,
        steps: &[PackStep],
        to: i64,
    ) -> Result<Vec<i64>, StoreError>;

    /// Fails, and says what to do, when the pack's tables are missing, too old or too new for this binary.
    async fn check_pack(&self, pack: &str, steps: &[PackStep]) -> Result<(), StoreError>;
}
