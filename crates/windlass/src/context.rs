//! What a handler gets: the engine's context, with transactions as this crate types them.

use std::ops::Deref;

use windlass_core::StoreError;

use crate::{AsTx, Tx};

#[derive(Clone)]
pub struct Context(windlass_engine::Context);

impl Context {
    pub(crate) fn new(inner: windlass_engine::Context) -> Context {
        Context(inner)
    }

    /// A transaction on Windlass' database, for this job's effect and its completion.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(Tx::new(self.0.client().store().begin().await?))
    }

    /// Completes this job inside the caller's transaction, so that its effect and its completion are one commit.
    /// False when the lease was lost: the caller must roll back.
    pub async fn settle_in(&self, tx: &mut impl AsTx) -> Result<bool, StoreError> {
        self.0.settle_in(tx.as_tx()).await
    }
}

impl Deref for Context {
    type Target = windlass_engine::Context;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
