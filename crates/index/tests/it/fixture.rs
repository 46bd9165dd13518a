//! A store in its own folder with the entity service over it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use windlass_core::Store;
use windlass_core::entity::{Change, IndexState, Strategy};
use windlass_engine::{Client, Handlers, Worker, WorkerHandle, WorkerOptions};
use windlass_index::embed::{EmbedError, Embedder, StaticTable};
use windlass_index::service::queues;
use windlass_index::vector::Vector;
use windlass_index::{Entities, Indexing, SaveRequest, SearchRequest};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_testkit::signal::{Seen, wait_until};

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The embedder fails on a text that contains this.
pub(crate) const POISON: &str = "POISON";

/// The built-in embedder, which counts the texts it embeds.
pub(crate) struct Counting {
    table: StaticTable,
    pub(crate) texts: AtomicU64,
}

impl Embedder for Counting {
    fn space(&self) -> &str {
        self.table.space()
    }

    fn dimension(&self) -> usize {
        self.table.dimension()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError> {
        self.texts.fetch_add(texts.len() as u64, Ordering::Relaxed);
        if texts.iter().any(|text| text.contains(POISON)) {
            return Err(EmbedError::Model("this text cannot be embedded".to_owned()));
        }
        self.table.embed(texts)
    }
}

pub(crate) struct Fixture {
    pub(crate) entities: Entities,
    pub(crate) client: Client,
    pub(crate) embedder: Arc<Counting>,
    handlers: Handlers,
}

impl Fixture {
    pub(crate) async fn open(folder: &Path) -> Fixture {
        let store = SqliteStore::open(folder.join("app.db"), SqliteOptions::default()).unwrap();
        Fixture::over(Arc::new(store)).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>) -> Fixture {
        store.migrate_up(None).await.unwrap();
        let embedder = Arc::new(Counting { table: StaticTable::load().unwrap(), texts: AtomicU64::new(0) });
        let indexing = Indexing::new(embedder.clone());
        let mut handlers = Handlers::default();
        indexing.add_to(&mut handlers);
        let client = Client::open(store, &queues(), &handlers.specs()).await.unwrap();
        let entities = Entities::open(client.clone(), &indexing, &[]).await.unwrap();
        Fixture { entities, client, embedder, handlers }
    }

    pub(crate) async fn work(&self) -> WorkerHandle {
        Worker::start(self.client.clone(), &self.handlers, WorkerOptions::default()).await.unwrap()
    }

    pub(crate) async fn put(&self, id: &str, fields: Value) -> IndexState {
        self.save(id, fields, None).await
    }

    pub(crate) async fn save(&self, id: &str, fields: Value, strategy: Option<Strategy>) -> IndexState {
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        let request = SaveRequest { strategy, ..SaveRequest::new("document", id, Change::Put(fields)) };
        self.entities.save(request).await.unwrap().state
    }

    pub(crate) async fn delete(&self, id: &str) {
        self.entities.save(SaveRequest::new("document", id, Change::Delete)).await.unwrap();
    }

    pub(crate) async fn ids(&self, query: &str) -> Vec<String> {
        let answer = self.entities.search(SearchRequest::new("document", query)).await.unwrap();
        answer.hits.into_iter().map(|hit| hit.id).collect()
    }

    pub(crate) async fn indexed(&self, id: &str) {
        wait_until("the entity to be indexed", DEADLINE, || async {
            let row = self.entities.get("document", id).await.unwrap();
            Seen::when(row.state, |state| *state == IndexState::Indexed)
        })
        .await;
    }
}
