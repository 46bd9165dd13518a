//! A separate database for each test, and a client on it.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::{KindSpec, QueueSpec, Store};
use windlass_engine::{Client, Handlers};
use windlass_store_postgres::{Options, PostgresStore};
use windlass_store_sqlite::SqliteStore;

/// One test per database.
#[macro_export]
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($place:ident: Place) $body:block)*) => { $(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn case($place: &Place) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                let place = Place::sqlite().await;
                case(&place).await;
                place.end().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                let place = Place::postgres().await;
                case(&place).await;
                place.end().await;
            }
        }
    )* };
}

pub(crate) struct Place {
    pub(crate) store: Arc<dyn Store>,
    postgres: Option<Arc<PostgresStore>>,
    _folder: TempDir,
}

/// Longer than any test, so nothing in a test can depend on a poll.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

pub(crate) fn server() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned())
}

impl Place {
    pub(crate) async fn sqlite() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("windlass.db"), Default::default()).unwrap();
        store.migrate_up(None).await.unwrap();
        Place { store: Arc::new(store), postgres: None, _folder: folder }
    }

    pub(crate) async fn postgres() -> Place {
        Place::postgres_with(Options::default()).await
    }

    pub(crate) async fn postgres_with(options: Options) -> Place {
        let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() & 0xffff_ffff_ffff;
        let url = format!("{}?schema=wle_{}_{nanos:x}", server(), std::process::id());
        let store = Arc::new(PostgresStore::connect(&url, options).await.unwrap());
        store.migrate_up(None).await.unwrap();
        Place { store: store.clone(), postgres: Some(store), _folder: tempfile::tempdir().unwrap() }
    }

    /// Its queues are not polled during a test.
    pub(crate) async fn client(&self, queues: &[&str], handlers: &Handlers) -> Client {
        let queues: Vec<QueueSpec> =
            queues.iter().map(|name| QueueSpec { cadence: NEVER, ..QueueSpec::named(name) }).collect();
        let kinds: Vec<KindSpec> = handlers.specs();
        Client::open(self.store.clone(), &queues, &kinds).await.unwrap()
    }

    /// The Postgres schema of the tables.
    pub(crate) fn schema(&self) -> &str {
        self.postgres.as_ref().map_or("", |store| store.schema())
    }

    /// A failed test leaves its schema for inspection.
    pub(crate) async fn end(self) {
        if let Some(postgres) = &self.postgres {
            postgres.drop_schema().await.unwrap();
        }
        self.store.close().await;
    }
}
