//! Transactions: the application's own, or one that Windlass begins on the same database.

use sqlx::{PgConnection, Postgres, Sqlite, SqliteConnection, Transaction};
use windlass_core::store::StoreTx;
use windlass_core::{StoreError, TxRef};

/// A transaction on Windlass' database, for application data and jobs together. Dropping it rolls back.
pub struct Tx {
    inner: Box<dyn StoreTx>,
}

impl Tx {
    pub(crate) fn new(inner: Box<dyn StoreTx>) -> Tx {
        Tx { inner }
    }

    /// The connection for the application's own statements; `None` on SQLite.
    pub fn postgres(&mut self) -> Option<&mut PgConnection> {
        self.inner.tx().connection()
    }

    /// The connection for the application's own statements; `None` on Postgres.
    pub fn sqlite(&mut self) -> Option<&mut SqliteConnection> {
        self.inner.tx().connection()
    }

    pub async fn commit(self) -> Result<(), StoreError> {
        self.inner.commit().await
    }

    pub async fn rollback(self) -> Result<(), StoreError> {
        self.inner.rollback().await
    }
}

/// An open transaction: [`Tx`], a `sqlx::Transaction`, or a connection on which the caller began one.
pub trait AsTx: Send {
    fn as_tx(&mut self) -> TxRef<'_>;
}

impl AsTx for Tx {
    fn as_tx(&mut self) -> TxRef<'_> {
        self.inner.tx()
    }
}

impl AsTx for PgConnection {
    fn as_tx(&mut self) -> TxRef<'_> {
        TxRef::new(self)
    }
}

impl AsTx for SqliteConnection {
    fn as_tx(&mut self) -> TxRef<'_> {
        TxRef::new(self)
    }
}

impl AsTx for Transaction<'_, Postgres> {
    fn as_tx(&mut self) -> TxRef<'_> {
        TxRef::new(&mut **self)
    }
}

impl AsTx for Transaction<'_, Sqlite> {
    fn as_tx(&mut self) -> TxRef<'_> {
        TxRef::new(&mut **self)
    }
}
