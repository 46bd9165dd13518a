//! A part's transaction: its rows, its jobs and the completion of a job in one commit.
//!
//! On SQLite a write transaction holds the only writer, so a part that keeps one open delays everybody. One that is open for
//! too long is rolled back and named in the log; its next statement fails.

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

/// Dropped without a commit, it rolls back.
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

    /// Runs one statement, answers the rows it changed. The same text serves both databases: `$1`, tables as
    /// `windlass.<pack>_x`.
    pub async fn run(&mut self, text: &str, values: &[SqlValue]) -> Result<u64, StoreError> {
        let mut open = self.open.lock().await;
        self.opened(&mut open)?.sql().run(text, values).await
    }

    pub async fn rows(&mut self, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let mut open = self.open.lock().await;
        self.opened(&mut open)?.sql().rows(text, values).await
    }

    /// The job exists when the transaction commits, and never did when it rolls back.
    pub async fn enqueue(&mut self, job: JobRequest) -> Result<Option<Enqueued>, EnqueueError> {
        let mut open = self.open.lock().await;
        let tx = self.opened(&mut open)?.tx();
        Ok(self.client.enqueue_in(tx, vec![job]).await?.into_iter().next())
    }

    /// Completes the job that runs, in this transaction. False when its lease was lost: then roll back.
    pub async fn settle(&mut self, context: &Context) -> Result<bool, StoreError> {
        let mut open = self.open.lock().await;
        context.settle_in(self.opened(&mut open)?.tx()).await
    }

    /// A line in the audit, in this transaction: who did what, and how things stood before and after.
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
        // An aborted task lets go of what it holds a moment later; the writer should be free at once.
        if let Ok(mut open) = self.open.try_lock() {
            drop(open.take());
        }
    }
}

/// Waits for a statement that runs: the statement's own deadline bounds that.
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

    /// The writer is free for others once the transaction was ended, and the part hears why.
    #[tokio::test]
    async fn a_transaction_that_is_open_for_too_long_is_ended_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("w.db"), SqliteOptions::default()).unwrap();
        store.migrate_up(None).await.unwrap();
        let client = Client::open(Arc::new(store), &[], &[]).await.unwrap();
        let mut slow = PackTx::limited("guestbook", &client, Duration::from_millis(20)).await.unwrap();
        // Waits at the gate until the slow one is ended.
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
