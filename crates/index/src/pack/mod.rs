//! The index as a pack: routes, verbs, metrics and health checks for entities, types and search.
//!
//! Owns wire formats and wiring. The rules of entities are in [`Entities`].

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

use std::sync::{Arc, OnceLock};

use windlass_core::StoreError;
use windlass_core::TypeSpec;
use windlass_core::entity::TABLES;
use windlass_engine::Client;
use windlass_pack::page::{Asset, Page};
use windlass_pack::settings::{Setting, Settings};
use windlass_pack::{Answer, Call, Host, Method, Pack, Registry, Route};

use crate::embed::{BuiltIn, Embedder};
use crate::service::{ASYNC_KIND, BATCH_KIND, queues};
use crate::{Entities, EntityError, Indexing};

const SCRIPT: Asset = Asset {
    name: "script_search",
    path: "/assets/index/search.js",
    content_type: "text/javascript; charset=utf-8",
    content: include_str!("page/search.js"),
};

/// The pack that adds entities and search.
pub struct IndexPack {
    indexing: Indexing,
    types: Vec<TypeSpec>,
    opened: Arc<OnceLock<Entities>>,
}

impl Default for IndexPack {
    fn default() -> IndexPack {
        IndexPack::new(Arc::new(BuiltIn::default()), Vec::new())
    }
}

impl IndexPack {
    /// `types` are added to `document`, to the configured types and to those of other packs.
    pub fn new(embedder: Arc<dyn Embedder>, types: Vec<TypeSpec>) -> IndexPack {
        IndexPack { indexing: Indexing::new(embedder), types, opened: Arc::default() }
    }

    /// `None` until the system is open.
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
        // The first definition of a name counts, so the configuration comes before the program and packs.
        let mut types = settings::types(registry.settings());
        types.extend(self.types.iter().cloned());
        let context = IndexContext { host: registry.host(), opened: self.opened.clone() };
        for queue in queues() {
            registry.queue(queue);
        }
        self.indexing.register(registry);
        for table in TABLES {
            registry.table(table);
        }
        for route in routes(&context) {
            registry.route(route);
        }
        figures::register(&context, registry);
        metrics::register(&context, &self.indexing, registry);
        health::register(&context, registry);
        verbs::register(registry);
        registry.asset(SCRIPT);
        registry.page(
            Page::new("search", "Search", "/v1/types")
                .module(SCRIPT.path)
                .quiet_queues(&[ASYNC_KIND, BATCH_KIND]),
        );
        let opened = self.opened.clone();
        registry.service(move || service::Follow::new(opened.clone()));
        let (indexing, opened) = (self.indexing.clone(), self.opened.clone());
        registry.on_visit(move |host| {
            types.extend_from_slice(host.entity_types()?);
            let client = host.client()?.clone();
            let entities = opened.get_or_init(|| Entities::visit(client, &indexing, &types));
            host.offer(entities.clone())
        });
        registry.on_open(|_| async move {
            let begun = match context.entities() {
                Ok(entities) => entities.begin().await,
                Err(off) => Err(off),
            };
            begun.map_err(|error| error.chain())
        });
    }
}

/// State of this pack's routes, metrics and checks.
#[derive(Clone)]
struct IndexContext {
    host: Host,
    opened: Arc<OnceLock<Entities>>,
}

impl IndexContext {
    fn entities(&self) -> Result<&Entities, EntityError> {
        self.opened.get().ok_or(EntityError::Off)
    }

    fn client(&self) -> Result<&Client, StoreError> {
        self.host.client()
    }
}

fn routes(context: &IndexContext) -> Vec<Route> {
    let groups = [
        write::routes(context),
        bulk::routes(context),
        read::routes(context),
        types::routes(context),
        search::routes(context),
    ];
    groups.into_iter().flatten().collect()
}

fn route<A>(
    context: &IndexContext,
    method: Method,
    path: &'static str,
    name: &'static str,
    about: &'static str,
    handler: fn(IndexContext, Call) -> A,
) -> Route
where
    A: Future<Output = Answer> + Send + 'static,
{
    let context = context.clone();
    Route::new(method, path, name, about, move |call| handler(context.clone(), call))
}
