//! Scratch schemas for verifying backups: marking them as used, and removing abandoned ones.
//!
//! The user of a schema holds an advisory lock on its name in an open transaction, taken before the schema is created.
//! The server releases the lock when the connection ends, however it ends. The lock belongs to a transaction because a
//! pooler keeps no session.

use sqlx::{AssertSqlSafe, Postgres, Transaction};
use windlass_core::StoreError;

use crate::PostgresStore;
use crate::error::translate;

/// The class id that separates these from all other advisory locks.
const LOCKS: i64 = 0x77_6c_73_63;

/// Marks the schema as used until it is dropped.
pub struct HeldSchema(#[expect(dead_code, reason = "it is held, not used")] Transaction<'static, Postgres>);

impl PostgresStore {
    /// Marks this store's schema as used. Takes its own connection, because the pool is needed for the work.
    pub async fn hold_schema(&self) -> Result<HeldSchema, StoreError> {
        let failed = |error| translate("hold a scratch schema", error);
        let mut tx = self.callers.begin().await.map_err(failed)?;
        // The server may be configured to end idle transactions.
        sqlx::raw_sql("set local idle_in_transaction_session_timeout = 0")
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        sqlx::query("select pg_advisory_xact_lock(hashtextextended($1, $2))")
            .bind(&self.schema)
            .bind(LOCKS)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        Ok(HeldSchema(tx))
    }

    /// Unused schemas of our own role whose names match. Changes nothing.
    pub async fn left_schemas(&self, pattern: &str) -> Result<Vec<String>, StoreError> {
        let failed = |error| translate("find scratch schemas", error);
        let mut tx = self.pool.begin().await.map_err(failed)?;
        let left = lock_left(&mut tx, pattern).await?;
        // A dropped transaction rolls back later, and until then the schemas would seem used.
        tx.rollback().await.map_err(failed)?;
        Ok(left)
    }

    /// Removes them. One that cannot be removed is left for the next time.
    pub async fn sweep_schemas(&self, pattern: &str) -> Result<Vec<String>, StoreError> {
        let mut gone = Vec::new();
        for schema in self.left_schemas(pattern).await? {
            match self.sweep_schema(&schema).await {
                Ok(true) => gone.push(schema),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(schema, error = error.chain(), "cannot remove a scratch schema")
                }
            }
        }
        Ok(gone)
    }

    /// Under its lock, so that a schema in use stays. Returns false when another process was faster.
    async fn sweep_schema(&self, schema: &str) -> Result<bool, StoreError> {
        let failed = |error| translate("remove a scratch schema", error);
        let mut tx = self.pool.begin().await.map_err(failed)?;
        if lock_left(&mut tx, &format!("^{schema}$")).await?.is_empty() {
            tx.rollback().await.map_err(failed)?;
            return Ok(false);
        }
        let quoted = schema.replace('"', "\"\"");
        let statement = AssertSqlSafe(format!("drop schema if exists \"{quoted}\" cascade"));
        sqlx::raw_sql(statement).execute(&mut *tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        Ok(true)
    }
}

/// Schemas whose lock is free; we hold it until the transaction ends.
async fn lock_left(
    tx: &mut Transaction<'static, Postgres>,
    pattern: &str,
) -> Result<Vec<String>, StoreError> {
    // Materialized, so that locks are tried only on these.
    let left = sqlx::query_scalar(
        "with ours as materialized (
             select nspname::text as name from pg_namespace
             where nspname::text ~ $1 and pg_has_role(nspowner, 'usage')
         )
         select name from ours where pg_try_advisory_xact_lock(hashtextextended(name, $2)) order by name",
    );
    let left = left.bind(pattern).bind(LOCKS).fetch_all(&mut **tx).await;
    left.map_err(|error| translate("find scratch schemas", error))
}
