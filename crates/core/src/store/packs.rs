//! Questions and answers about the tables of packs: the sixth part of the store contract.

use async_trait::async_trait;

use crate::StoreError;
use crate::pack::{PackMigration, PackStep};

/// Steps are applied and taken back as those of the schema are: each in a transaction of its own, from any number of processes,
/// giving way to statements under way. The schema has to be there.
#[async_trait]
pub trait PackStore: Send + Sync {
    /// Every step that is applied, also of packs that this binary does not have: by pack, oldest first.
    async fn pack_migrations(&self) -> Result<Vec<PackMigration>, StoreError>;

    /// Applies what is missing, returns the versions applied.
    async fn migrate_pack_up(&self, pack: &str, steps: &[PackStep]) -> Result<Vec<i64>, StoreError>;

    /// Takes back every step above `to`, returns their versions.
    async fn migrate_pack_down(
        &self,
        pack: &str,
        steps: &[PackStep],
        to: i64,
    ) -> Result<Vec<i64>, StoreError>;

    /// Fails with the remedy when the pack's tables are missing, older or newer than this binary can use.
    async fn check_pack(&self, pack: &str, steps: &[PackStep]) -> Result<(), StoreError>;
}
