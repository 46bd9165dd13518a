//! The index as a part: entities, types and search over HTTP and on the command line, with their figures and checks.
//!
//! Owns wire shapes and wiring. Knows no rule of entities: [`Entities`] does.

mod bulk;
mod figures;
mod health;
mod metrics;
mod problem;
mod read;
mod search;
mod service;
mod settings;
mod types;
mod verbs;
mod view;
mod write;

use std::sync::Arc;

use tokio::sync::OnceCell;
use windlass_core::StoreError;
use windlass_core::TypeSpec;
use windlass_core::entity::TABLES;
use windlass_engine::Client;
use windlass_pack::page::{Asset, Page};
use windlass_pack::settings::{Setting, Settings};
use windlass_pack::{Answer, Call, Host, Method, Pack, Problem, Registry, Route};

use crate::embed::{BuiltIn, Embedder};
use crate::service::{ASYNC_KIND, BATCH_KIND, queues};
use crate::{Entities, EntityError, Indexing};

const SCRIPT: Asset = Asset {
    name: "script_search",
    path: "/assets/index/search.js",
    content_type: "text/javascript; charset=utf-8",
    content: include_str!("page/search.js"),
};

/// Entities and their search.
pub struct IndexPack {
    indexing: Indexing,
    types: Vec<TypeSpec>,
    opened: Arc<OnceCell<Entities>>,
}

impl Default for IndexPack {
    fn default() -> IndexPack {
        IndexPack::new(Arc::new(BuiltIn::default()), Vec::new())
    }
}

impl IndexPack {
    /// With types besides `document`, those of the configuration and those of other parts.
    pub fn new(embedder: Arc<dyn Embedder>, types: Vec<TypeSpec>) -> IndexPack {
        IndexPack { indexing: Indexing::new(embedder), types, opened: Arc::default() }
    }

    /// The entities, once the system is open.
    pub fn entities(&self) -> Option<Entities> {
        self.opened.get().cloned()
    }
}

impl Pack for IndexPack {
    fn name(&self) -> &'static str {
        "index"
    }

    fn settings(&self) -> Vec<Setting> {
        settings::declared()
    }

    fn check(&self, settings: &Settings) -> windlass_core::Invalid {
        settings::check(settings)
    }

    fn register(&self, registry: &mut Registry) {
        let mut types = self.types.clone();
        types.extend(settings::types(registry.settings()));
        let desk = Desk {
            host: registry.host(),
            indexing: self.indexing.clone(),
            types: types.into(),
            opened: self.opened.clone(),
        };
        for queue in queues() {
            registry.queue(queue);
        }
        self.indexing.register(registry);
        for table in TABLES {
            registry.table(table);
        }
        for route in routes(&desk) {
            registry.route(route);
        }
        figures::register(&desk, registry);
        metrics::register(&desk, registry);
        health::register(&desk, registry);
        verbs::register(registry);
        registry.asset(SCRIPT);
        registry.page(
            Page::new("search", "Search", "/v1/types")
                .module(SCRIPT.path)
                .quiet_queues(&[ASYNC_KIND, BATCH_KIND]),
        );
        let opened = self.opened.clone();
        registry.service(move || service::Follow::new(opened.clone()));
        registry.on_open(|host| async move {
            let entities = desk.open().await.map_err(|error| error.chain())?;
            host.offer(entities.clone()).map_err(|error| error.chain())
        });
    }
}

/// What every route of this part has at hand. The index is opened at first use: a verb that only lists jobs loads nothing.
#[derive(Clone)]
struct Desk {
    host: Host,
    indexing: Indexing,
    types: Arc<[TypeSpec]>,
    opened: Arc<OnceCell<Entities>>,
}

impl Desk {
    async fn open(&self) -> Result<&Entities, EntityError> {
        let open = || async {
            let client = self.host.client()?.clone();
            let types: Vec<TypeSpec> = self.types.iter().chain(self.host.entity_types()?).cloned().collect();
            Entities::open(client, &self.indexing, &types).await
        };
        self.opened.get_or_try_init(open).await
    }

    async fn entities(&self) -> Result<&Entities, Problem> {
        self.open().await.map_err(problem::of)
    }

    fn client(&self) -> Result<&Client, StoreError> {
        self.host.client()
    }
}

fn routes(desk: &Desk) -> Vec<Route> {
    let groups = [
        write::routes(desk),
        bulk::routes(desk),
        read::routes(desk),
        types::routes(desk),
        search::routes(desk),
    ];
    groups.into_iter().flatten().collect()
}

fn route<A>(
    desk: &Desk,
    method: Method,
    path: &'static str,
    name: &'static str,
    about: &'static str,
    handler: fn(Desk, Call) -> A,
) -> Route
where
    A: Future<Output = Answer> + Send + 'static,
{
    let desk = desk.clone();
    Route::new(method, path, name, about, move |call| handler(desk.clone(), call))
}
