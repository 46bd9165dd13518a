//! The context of a handler: the engine's context plus this crate's transactions.

use std::ops::Deref;

use windlass_core::StoreError;
use windlass_engine::Completion;

use crate::{AsTx, Tx};

#[derive(Clone)]
pub struct Context(windlass_engine::Context);

impl Context {
    pub(crate) fn new(inner: windlass_engine::Context) -> Context {
        Context(inner)
    }

    /// Begins a transaction on Windlass' database, for this job's effect and its completion.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(Tx::new(self.0.client().store().begin().await?))
    }

    /// Completes this job inside the caller's transaction, so that its effect and its completion are one commit.
    /// False when the lease was lost: the caller must roll back.
    ///
    /// Call it last before the commit: on Postgres the jobs that were claimed together with this one cannot be settled
    /// until the transaction ends, because they share a lease row.
    pub async fn settle_in(&self, tx: &mut impl AsTx) -> Result<bool, StoreError> {
        self.0.settle_in(tx.as_tx()).await
    }

    /// The same with a result: `context.settle_in_with(&mut tx, Completion::with(&result)?)`. The return value of the
    /// handler is ignored afterwards.
    pub async fn settle_in_with(
        &self,
        tx: &mut impl AsTx,
        completion: Completion,
    ) -> Result<bool, StoreError> {
        self.0.settle_in_with(tx.as_tx(), completion).await
    }
}

impl Deref for Context {
    type Target = windlass_engine::Context;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
