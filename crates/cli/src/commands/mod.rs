//! One file per verb, and the session they share.
//!
//! Owns how a verb gets from the configuration to a usable database. `compose` knows the databases.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod budgets;
pub(crate) mod cleanup;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead_letters;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod jobs;
pub(crate) mod kinds;
mod line;
pub(crate) mod migrate;
pub(crate) mod openapi;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod serve;
pub(crate) mod top;
pub(crate) mod workers;
pub(crate) mod workflows;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windlass_core::{Store, StoreError};
use windlass_pack::Assembly;

use crate::api::{Remote, Visited};
use crate::compose::{self, Address, Parts};
use crate::config::{Config, Database};
use crate::failure::{During, Failure};
use crate::output::Output;

/// State shared by all verbs.
pub(crate) struct Session {
    pub(crate) config: Config,
    pub(crate) parts: Parts,
    pub(crate) output: Output,
    /// The server that data verbs call instead of opening the database.
    pub(crate) remote: Option<Remote>,
    /// Set if a verb opened the database to call routes in this process.
    pub(crate) visited: OnceLock<Visited>,
    opened: Mutex<Vec<Arc<dyn Store>>>,
}

impl Session {
    pub(crate) fn new(config: Config, parts: Parts, output: Output, remote: Option<Remote>) -> Session {
        Session { config, parts, output, remote, visited: OnceLock::new(), opened: Mutex::new(Vec::new()) }
    }

    /// The parts with configured values, not yet opened.
    pub(crate) fn assembly(&self) -> Result<Assembly, Failure> {
        self.parts.assemble(self.config.settings.clone())
    }

    /// Opens the database without checking its schema. Read-only verbs create no file, and creating one is reported.
    pub(crate) async fn open(&self, database: &Database, create: bool) -> Result<Arc<dyn Store>, Failure> {
        let what = || format!("cannot open {}", database.address);
        let is_new = matches!(&database.address, Address::Sqlite(path) if !path.exists());
        if is_new && !create {
            let hint = "`windlass serve`, `demo`, `index`, `enqueue`, `restore` and `migrate up` make a new one; --database names another";
            return Err(Failure::new(what(), "there is no such file").hint(hint));
        }
        let store = compose::open(database, create).await.during(what())?;
        if is_new {
            self.output.note(format_args!("created a new database: {}", database.address));
        }
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(store.clone());
        Ok(store)
    }

    /// The database with a usable schema. A new SQLite file, if allowed, is migrated; others only on request.
    pub(crate) async fn ready(
        &self,
        database: &Database,
        migrate: bool,
        create: bool,
    ) -> Result<Arc<dyn Store>, Failure> {
        let store = self.open(database, create).await?;
        self.migrated(&store, database, migrate).await?;
        Ok(store)
    }

    /// The same for an open database.
    pub(crate) async fn migrated(
        &self,
        store: &Arc<dyn Store>,
        database: &Database,
        migrate: bool,
    ) -> Result<(), Failure> {
        let new = match store.check_schema().await {
            Ok(()) => false,
            Err(StoreError::SchemaMissing) if store.name() == "sqlite" => true,
            Err(StoreError::SchemaMissing | StoreError::SchemaOld { .. }) if migrate => true,
            Err(error) => return Err(error).during(format!("cannot use {}", database.address)),
        };
        let assembly = self.assembly()?;
        if new {
            let applied = store.migrate_up(None).await.during("cannot migrate the schema")?;
            tracing::info!(?applied, "migrated");
        }
        // On SQLite, tables of a part added later are created without being asked for, as for a new file.
        if new || migrate || store.name() == "sqlite" {
            let applied = assembly.migrate(store.as_ref()).await.during("cannot migrate the parts")?;
            if !applied.is_empty() {
                tracing::info!(?applied, "migrated");
            }
        }
        assembly.check(store.as_ref()).await.during(format!("cannot use {}", database.address))
    }

    /// An existing database.
    pub(crate) async fn existing(&self) -> Result<Arc<dyn Store>, Failure> {
        let database = &self.config.database;
        let store = self.open(database, false).await?;
        let what = format!("cannot use {}", database.address);
        store.check_schema().await.during(what.as_str())?;
        self.assembly()?.check(store.as_ref()).await.during(what)?;
        Ok(store)
    }

    /// Ends background work of all stores.
    pub(crate) async fn close(&self) {
        let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        for store in opened {
            store.close().await;
        }
    }
}
