//! Transactions: our own, and callers'.
//!
//! Owns access to a caller's connection ([`connection`]) and the transaction that `begin` returns. Never commits or
//! rolls back a caller's transaction.

use async_trait::async_trait;
use sqlx::{PgConnection, Postgres, Transaction};
use windlass_core::store::{Sql, StoreTx};
use windlass_core::{StoreError, TxRef};

use crate::PostgresStore;
use crate::error::failed;
use crate::sql::PgSql;

pub(crate) struct PgTx {
    tx: Transaction<'static, Postgres>,
    schema: String,
}

#[async_trait]
impl StoreTx for PgTx {
    fn tx(&mut self) -> TxRef<'_> {
        let connection: &mut PgConnection = &mut self.tx;
        TxRef::new(connection)
    }

    fn sql(&mut self) -> Box<dyn Sql + '_> {
        Box::new(PgSql::new(&mut self.tx, &self.schema))
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.tx.commit().await.map_err(failed("commit"))
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(failed("roll back"))
    }
}

impl PostgresStore {
    pub(crate) async fn do_begin(&self) -> Result<Box<dyn StoreTx>, StoreError> {
        let tx = self.callers.begin().await.map_err(failed("begin a transaction"))?;
        Ok(Box::new(PgTx { tx, schema: self.schema.clone() }))
    }
}

pub(crate) fn connection<'a>(tx: TxRef<'a>) -> Result<&'a mut PgConnection, StoreError> {
    tx.connection::<PgConnection>().ok_or_else(|| StoreError::WrongTransaction {
        why: "it is not a connection to Postgres".to_owned(),
        remedy: "pass a `&mut sqlx::PgConnection` (for a `sqlx::Transaction`: `&mut *tx`), or use `begin`",
    })
}

/// Opens a savepoint, so that a refused call leaves nothing in the caller's transaction. Sent as SQL, because sqlx
/// would send BEGIN (and later COMMIT) when the caller opened the transaction itself.
pub(crate) async fn savepoint(conn: &mut PgConnection) -> Result<(), StoreError> {
    match sqlx::raw_sql("savepoint windlass").execute(&mut *conn).await {
        Ok(_) => Ok(()),
        Err(error) if crate::error::code(&error) == "25P01" => Err(StoreError::WrongTransaction {
            why: "the connection has no open transaction".to_owned(),
            remedy: "begin one first, then pass its connection",
        }),
        Err(error) => Err(crate::error::translate("open a savepoint", error)),
    }
}

pub(crate) async fn release(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::raw_sql("release savepoint windlass").execute(conn).await.map_err(failed("release a savepoint"))?;
    Ok(())
}

pub(crate) async fn undo(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::raw_sql("rollback to savepoint windlass; release savepoint windlass")
        .execute(conn)
        .await
        .map_err(failed("roll back to a savepoint"))?;
    Ok(())
}
