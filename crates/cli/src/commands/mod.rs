//! One file per verb, and the session they share.
//!
//! Owns how a verb gets from the configuration to a database it can use. Never names a database: `compose` does.

pub(crate) mod bench;
pub(crate) mod cleanup;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead_letters;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod entities;
pub(crate) mod jobs;
pub(crate) mod kinds;
pub(crate) mod migrate;
pub(crate) mod queues;
pub(crate) mod serve;
pub(crate) mod workers;

use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::{KindSpec, QueueSpec, Store, StoreError};
use windlass_engine::{Catalog, Client, Handlers, tryout};

use crate::compose;
use crate::config::{Config, Database};
use crate::failure::{During, Failure};
use crate::output::Output;

/// What every verb has at hand.
pub(crate) struct Session {
    pub(crate) config: Config,
    pub(crate) output: Output,
    opened: Mutex<Vec<Arc<dyn Store>>>,
}

impl Session {
    pub(crate) fn new(config: Config, output: Output) -> Session {
        Session { config, output, opened: Mutex::new(Vec::new()) }
    }

    /// The database as it is, its schema not looked at.
    pub(crate) async fn open(&self, database: &Database, create: bool) -> Result<Arc<dyn Store>, Failure> {
        let store =
            compose::open(database, create).await.during(format!("cannot open {}", database.address))?;
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(store.clone());
        Ok(store)
    }

    /// The database with a schema this binary can use. A new SQLite file is migrated; everything else only on
    /// request.
    pub(crate) async fn ready(&self, database: &Database, migrate: bool) -> Result<Arc<dyn Store>, Failure> {
        let what = || format!("cannot use {}", database.address);
        let store = self.open(database, true).await?;
        let new = match store.check_schema().await {
            Ok(()) => false,
            Err(StoreError::SchemaMissing) if store.name() == "sqlite" => true,
            Err(StoreError::SchemaMissing | StoreError::SchemaOld { .. }) if migrate => true,
            Err(error) => return Err(error).during(what()),
        };
        if new {
            let applied = store.migrate_up(None).await.during("cannot migrate the schema")?;
            tracing::info!(?applied, "migrated");
        }
        Ok(store)
    }

    /// For verbs that look and act. Registers only what is missing: the figures of a running server, whose
    /// configuration this process may not have, stay as they are.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let what = "cannot read the registry";
        let store = self.ready(&self.config.database, false).await?;
        let catalog = Catalog::load(store.as_ref()).await.during(what)?;
        let queues: Vec<QueueSpec> = self.config.queues.clone();
        let queues: Vec<QueueSpec> =
            queues.into_iter().filter(|queue| catalog.queue_named(&queue.name).is_none()).collect();
        let mut kinds = carried(false).specs();
        kinds.extend(windlass_index::service::kinds());
        let kinds: Vec<KindSpec> = self.config.kinds.apply(kinds);
        let kinds: Vec<KindSpec> =
            kinds.into_iter().filter(|kind| catalog.kind_named(&kind.name).is_none()).collect();
        if !queues.is_empty() || !kinds.is_empty() {
            store.sync_registry(&queues, &kinds).await.during("cannot register queues and kinds")?;
        }
        Client::open(store, &[], &[]).await.during(what)
    }

    /// Lets every store end its background work.
    pub(crate) async fn close(&self) {
        let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        for store in opened {
            store.close().await;
        }
    }
}

/// The kinds this binary runs.
pub(crate) fn carried(abort: bool) -> Handlers {
    let mut handlers = Handlers::default();
    tryout::add(&mut handlers, abort);
    handlers
}
