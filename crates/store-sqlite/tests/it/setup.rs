//! A migrated file with one queue and one kind.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_core::store::{Claim, WorkerInfo};
use windlass_core::{JobId, KindId, KindSpec, NewJob, QueueId, QueueSpec, RunAt, Store, WorkerId};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) store: SqliteStore,
    pub(crate) queue: QueueId,
    pub(crate) kind: KindId,
}

impl Setup {
    pub(crate) async fn new() -> Setup {
        Setup::with(SqliteOptions::default()).await
    }

    pub(crate) async fn with(options: SqliteOptions) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("windlass.db"), options).unwrap();
        let (queue, kind) = prepare(&store).await;
        Setup { folder, store, queue, kind }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("windlass.db")
    }

    pub(crate) fn again(&self) -> SqliteStore {
        open(&self.path())
    }

    pub(crate) fn job(&self) -> NewJob {
        job(self.queue, self.kind)
    }

    pub(crate) async fn put(&self) -> JobId {
        self.store.enqueue(&[self.job()]).await.unwrap()[0].id
    }
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::default()).unwrap()
}

pub(crate) async fn prepare(store: &SqliteStore) -> (QueueId, KindId) {
    store.migrate_up(None).await.unwrap();
    store.sync_registry(&[QueueSpec::named("MAIN")], &[KindSpec::new("plain", "MAIN")], None).await.unwrap();
    (store.queues().await.unwrap()[0].id, store.kinds().await.unwrap()[0].0)
}

pub(crate) fn job(queue: QueueId, kind: KindId) -> NewJob {
    NewJob {
        kind,
        queue,
        priority: 5,
        payload: vec![b'x'; 200],
        run_at: RunAt::Now,
        max_attempts: 5,
        timeout: None,
        unique: None,
        idempotency: None,
        concurrency_key: None,
        tags: Vec::new(),
        entity: None,
    }
}

pub(crate) async fn worker(store: &SqliteStore, queue: QueueId) -> WorkerId {
    let lease = std::time::Duration::from_secs(60);
    let info = WorkerInfo { label: "host:1".to_owned(), queues: vec![queue], lease };
    store.register_worker(&info).await.unwrap()
}

pub(crate) fn ask(worker: WorkerId, queue: QueueId, kind: KindId, limit: u32) -> Claim {
    Claim { worker, queue, kinds: vec![kind], limit, level: windlass_core::sweep::Level::Ordinary }
}
