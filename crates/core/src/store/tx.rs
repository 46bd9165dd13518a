//! A caller's transaction. Its connection type is known only to the store.

use std::any::Any;

use async_trait::async_trait;

use super::{Sql, StoreError};

/// A borrowed database connection inside an open transaction (`sqlx::PgConnection` or `sqlx::SqliteConnection`).
pub struct TxRef<'a>(&'a mut (dyn Any + Send));

impl<'a> TxRef<'a> {
    pub fn new<C: Any + Send>(connection: &'a mut C) -> TxRef<'a> {
        TxRef(connection)
    }

    /// `None` if the connection has another type.
    pub fn connection<C: Any + Send>(self) -> Option<&'a mut C> {
        self.0.downcast_mut()
    }
}

/// A transaction opened for a caller. It rolls back if dropped without a commit.
#[async_trait]
pub trait StoreTx: Send {
    fn tx(&mut self) -> TxRef<'_>;
    fn sql(&mut self) -> Box<dyn Sql + '_>;
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
    async fn rollback(self: Box<Self>) -> Result<(), StoreError>;
}
