//! A server on a database for one test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass::parts::{EnginePart, Tryout};
use windlass_core::store::JobFilter;
use windlass_core::{Backoff, JobState, KindSpec, Store};
use windlass_engine::{Client, Handlers, JobError, Worker, WorkerHandle, WorkerOptions, handler};
use windlass_http::{Interface, Options, Server};
use windlass_index::IndexPack;
use windlass_index::embed::{EmbedError, Embedder, StaticTable};
use windlass_index::vector::Vector;
use windlass_pack::settings::Settings;
use windlass_pack::{Assembly, Pack, Registry, settings_of};
use windlass_store_postgres::PostgresStore;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

use crate::client::{self, Reply};

#[derive(Clone, Copy)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// One test per database.
#[macro_export]
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: World) $body:block)*) => { $(
        mod $name {
            use super::*;

            async fn case($world: &mut World) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                let mut world = World::on($crate::world::Database::Sqlite).await;
                case(&mut world).await;
                world.end().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                let mut world = World::on($crate::world::Database::Postgres).await;
                case(&mut world).await;
                world.end().await;
            }
        }
    )* };
}

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    handlers: Handlers,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
    worker: Option<WorkerHandle>,
    postgres: Option<Arc<PostgresStore>>,
    _folder: tempfile::TempDir,
}

/// An embedding call fails if one of its texts contains this.
pub(crate) const POISON: &str = "POISON";

/// The built-in embedding, except for [`POISON`].
struct Particular {
    table: StaticTable,
}

impl Embedder for Particular {
    fn space(&self) -> &str {
        self.table.space()
    }

    fn dimension(&self) -> usize {
        self.table.dimension()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError> {
        if texts.iter().any(|text| text.contains(POISON)) {
            return Err(EmbedError::Model("a text it cannot take".to_owned()));
        }
        self.table.embed(texts)
    }
}

pub(crate) fn options() -> Options {
    Options { bind: "127.0.0.1:0".parse().unwrap(), ..Options::default() }
}

/// A kind that fails permanently, with a hostile error text.
struct Broken;

impl Pack for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn register(&self, registry: &mut Registry) {
        broken(registry);
    }
}

fn broken(registry: &mut Registry) {
    let quick = Backoff { base: Duration::from_millis(1), ..Backoff::default() };
    registry.kind(
        KindSpec { backoff: quick, ..KindSpec::new("BROKEN", "LOW") },
        handler(|context, _: serde_json::Value| async move {
            context.log("about to fail");
            Err::<(), _>(JobError::fail("<b>never</b> again"))
        }),
    );
}

fn usual() -> Vec<Arc<dyn Pack>> {
    vec![Arc::new(EnginePart::default()), Arc::new(Tryout::default()), Arc::new(Broken)]
}

/// The client, handlers and routes of a test server.
async fn assembled(
    store: Arc<dyn Store>,
    packs: &[Arc<dyn Pack>],
    options: Options,
) -> (Client, Handlers, Server) {
    let settings = Settings::new(settings_of(packs));
    let mut assembly = Assembly::new(packs, settings, vec![windlass_http::inventory()]).unwrap();
    let client = Client::open(store, &assembly.queues(), &assembly.kinds()).await.unwrap();
    assembly.open(&client).await.unwrap();
    let interface = Interface::new(&options, client.clone(), &mut assembly).unwrap();
    let server = Server::bind(options, interface).await.unwrap();
    (client, assembly.handlers(), server)
}

/// The OpenAPI document of a test server with entities, without starting it.
pub(crate) fn document() -> String {
    let mut packs = usual();
    packs.push(Arc::new(IndexPack::default()));
    let mut assembly = Assembly::new(&packs, Settings::default(), Vec::new()).unwrap();
    windlass_http::document(&mut assembly)
}

impl World {
    pub(crate) async fn new() -> World {
        World::on(Database::Sqlite).await
    }

    pub(crate) async fn with(options: Options) -> World {
        World::start(Database::Sqlite, options, Vec::new()).await
    }

    pub(crate) async fn on(database: Database) -> World {
        World::start(database, options(), Vec::new()).await
    }

    /// With additional parts.
    pub(crate) async fn start(database: Database, options: Options, more: Vec<Arc<dyn Pack>>) -> World {
        let folder = tempfile::tempdir().unwrap();
        let mut postgres = None;
        let store: Arc<dyn Store> = match database {
            Database::Sqlite => {
                Arc::new(SqliteStore::open(folder.path().join("http.db"), SqliteOptions::default()).unwrap())
            }
            Database::Postgres => {
                let store = Arc::new(connect().await);
                postgres = Some(store.clone());
                store
            }
        };
        store.migrate_up(None).await.unwrap();
        let packs: Vec<Arc<dyn Pack>> = usual().into_iter().chain(more).collect();
        let (client, handlers, server) = assembled(store, &packs, options).await;
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server.run(async { drop(stopped.await) }));
        World {
            address,
            client,
            handlers,
            stop: Some(stop),
            server: Some(server),
            worker: None,
            postgres,
            _folder: folder,
        }
    }

    /// Serves the same database again, with entities.
    pub(crate) async fn add_entities(&mut self) {
        self.add_entities_with(options()).await;
    }

    pub(crate) async fn add_entities_with(&mut self, options: Options) {
        self.stop().await;
        let embedder = Arc::new(Particular { table: StaticTable::load().unwrap() });
        let mut packs = usual();
        packs.push(Arc::new(IndexPack::new(embedder, Vec::new())));
        let store = self.client.store().clone();
        let (client, handlers, server) = assembled(store, &packs, options).await;
        (self.client, self.handlers) = (client, handlers);
        self.address = server.address();
        let (stop, stopped) = oneshot::channel();
        self.server = Some(tokio::spawn(server.run(async { drop(stopped.await) })));
        self.stop = Some(stop);
    }

    pub(crate) async fn work(&mut self) {
        let options = WorkerOptions { label: "test".to_owned(), ..WorkerOptions::default() };
        self.worker = Some(Worker::start(self.client.clone(), &self.handlers, options).await.unwrap());
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        client::send(self.address, method, path, headers, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn with_body(&self, method: &str, path: &str, body: impl ToString) -> Reply {
        self.send(method, path, &[("Content-Type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl ToString) -> Reply {
        self.with_body("POST", path, body).await
    }

    /// The id of a new job.
    pub(crate) async fn enqueue(&self, body: Value) -> String {
        self.post("/v1/jobs", body).await.is(201)["id"].as_str().unwrap().to_owned()
    }

    /// The id of a job that ended as a dead letter.
    pub(crate) async fn dead_letter(&self) -> String {
        let body = json!({ "kind": "FAIL", "payload": { "times": 9 }, "max_attempts": 1 });
        let headers = [("Content-Type", "application/json"), ("Prefer", "wait=20")];
        let job = self.send("POST", "/v1/jobs", &headers, &body.to_string()).await.is(201);
        assert_eq!(job["state"], "dead_letter", "{job}");
        job["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn count(&self) -> u64 {
        self.client.store().count(&JobFilter::default()).await.unwrap()
    }

    pub(crate) async fn count_in(&self, state: JobState) -> u64 {
        self.client.store().count(&JobFilter { states: vec![state], ..JobFilter::default() }).await.unwrap()
    }

    /// Stops the server and waits for it.
    pub(crate) async fn stop(&mut self) {
        if let (Some(stop), Some(server)) = (self.stop.take(), self.server.take()) {
            let _ = stop.send(());
            server.await.unwrap();
        }
    }

    pub(crate) fn ask_to_stop(&mut self) -> JoinHandle<()> {
        let _ = self.stop.take().unwrap().send(());
        self.server.take().unwrap()
    }

    pub(crate) async fn end(mut self) {
        self.stop().await;
        if let Some(worker) = self.worker.take() {
            worker.shutdown().await.unwrap();
        }
        if let Some(store) = &self.postgres {
            store.drop_schema().await.unwrap();
        }
        self.client.store().close().await;
    }
}

async fn connect() -> PostgresStore {
    let url = std::env::var("WINDLASS_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let joint = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{joint}schema=wl_http_{}_{:x}", std::process::id(), nanos & 0xffff_ffff_ffff);
    PostgresStore::connect(&url, windlass_store_postgres::Options::default()).await.unwrap()
}
