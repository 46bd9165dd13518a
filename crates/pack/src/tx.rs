//! A part's transaction: its rows, its jobs and the completion of a job in one commit.
//!
//! On SQLite a write transaction holds the only writer, so keeping one open delays everyone else. If it stays open for
//! too long, it is rolled back and logged, and its next statement fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::store::{Enqueued, SqlRow, SqlValue, StoreTx};
use windlass_core::{StoreError, TxRef};
use windlass_engine::{Client, Context, EnqueueError, JobRequest};

/// How long a part may keep a transaction open.
const LIMIT: Duration = Duration::from_secs(2);

type Open = Arc<Mutex<Option<Box<dyn StoreTx>>>>;

/// Rolls back if dropped without a commit.
pub struct PackTx {
    pack: &'static str,
    client: Client,
    open: Open,
    watch: JoinHandle<()>,
}

impl PackTx {
    pub(crate) async fn begin(pack: &'static str, client: &Client) -> Result<PackTx, StoreError> {
        PackTx::limited(pack, client, LIMIT).await
    }

    async fn limited(pack: &'static str, client: &Client, limit: Duration) -> Result<PackTx, StoreError> {
        let open: Open = Arc::new(Mutex::new(Some(client.store().begin().await?)));
        let watch = tokio::spawn(end_after(open.clone(), pack, limit));
        Ok(PackTx { pack, client: client.clone(), open, watch })
    }

    /// Runs a statement and returns the number of rows changed. The same text works on both databases: `$1`, tables as
    /// `windlass.<pack>_x`.
    pub async fn run(&mut self, text: &str, values: &[SqlValue]) -> Result<u64, StoreError> {
        let mut open = self.open.lock().await;
        self.opened(&mut open)?.sql().run(text, values).await
    }

    pub async fn rows(&mut self, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let mut open = self.open.lock().await;
        self.opened(&mut open)?.sql().rows(text, values).await
    }

    /// The job exists only if the transaction commits.
    pub async fn enqueue(&mut self, job: JobRequest) -> Result<Option<Enqueued>, EnqueueError> {
        let mut open = self.open.lock().await;
        let tx = self.opened(&mut open)?.tx();
        Ok(self.client.enqueue_in(tx, vec![job]).await?.into_iter().next())
    }

    /// Completes the running job in this transaction. False if its lease was lost: roll back then.
    pub async fn settle(&mut self, context: &Context) -> Result<bool, StoreError> {
        let mut open = self.open.lock().await;
        context.settle_in(self.opened(&mut open)?.tx()).await
    }

    /// Writes an audit record in this transaction.
    pub async fn audit(&mut self, actor: &Actor, note: &NewAudit) -> Result<(), StoreError> {
        let mut open = self.open.lock().await;
        let tx = self.opened(&mut open)?.tx();
        self.client.store().note_in(tx, actor, note).await
    }

    /// For calls that take a caller's transaction, such as `Entities::save_in`.
    pub async fn with<T, E: From<StoreError>>(
        &mut self,
        call: impl AsyncFnOnce(TxRef<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut open = self.open.lock().await;
        call(self.opened(&mut open)?.tx()).await
    }

    pub async fn commit(self) -> Result<(), StoreError> {
        let tx = self.open.lock().await.take();
        self.watch.abort();
        tx.ok_or_else(|| self.ended())?.commit().await
    }

    pub async fn rollback(self) -> Result<(), StoreError> {
        let tx = self.open.lock().await.take();
        self.watch.abort();
        match tx {
            Some(tx) => tx.rollback().await,
            None => Ok(()),
        }
    }

    fn opened<'a>(
        &self,
        open: &'a mut MutexGuard<'_, Option<Box<dyn StoreTx>>>,
    ) -> Result<&'a mut Box<dyn StoreTx>, StoreError> {
        open.as_mut().ok_or_else(|| self.ended())
    }

    fn ended(&self) -> StoreError {
        StoreError::TransactionTooLong { pack: self.pack.to_owned() }
    }
}

impl Drop for PackTx {
    fn drop(&mut self) {
        self.watch.abort();
        // An aborted task releases what it holds a moment later, but the writer should be free at once.
        if let Ok(mut open) = self.open.try_lock() {
            drop(open.take());
        }
    }
}

/// Waits for a running statement, which has its own deadline.
async fn end_after(open: Open, pack: &'static str, limit: Duration) {
    tokio::time::sleep(limit).await;
    let Some(tx) = open.lock().await.take() else { return };
    tracing::warn!(pack, limit = ?limit, "a transaction was open for too long and is rolled back");
    if let Err(error) = tx.rollback().await {
        tracing::warn!(pack, error = error.chain(), "it could not be rolled back");
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::Store;
    use windlass_store_sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    /// After the rollback the writer is free for others, and the part gets the reason.
    #[tokio::test]
    async fn a_transaction_that_is_open_for_too_long_is_ended_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("w.db"), SqliteOptions::default()).unwrap();
        store.migrate_up(None).await.unwrap();
        let client = Client::open(Arc::new(store), &[], &[]).await.unwrap();
        let mut slow = PackTx::limited("guestbook", &client, Duration::from_millis(20)).await.unwrap();
        // Blocks until the slow one is ended.
        let quick = PackTx::begin("other", &client).await.unwrap();
        quick.commit().await.unwrap();
        let refused = slow.run("delete from windlass.audit", &[]).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::TransactionTooLong { pack } if pack == "guestbook"),
            "{refused}"
        );
        assert!(slow.commit().await.is_err(), "nothing is committed after that");
    }
}
