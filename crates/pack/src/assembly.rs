//! Combines parts: checks them against each other and opens them over one database.

use std::sync::{Arc, OnceLock};

use windlass_core::backup::{HeldPack, Holdings};
use windlass_core::pack::{PackStep, check_steps};
use windlass_core::schedule::ScheduleSpec;
use windlass_core::{BudgetSpec, Invalid, KindSpec, QueueSpec, Store, StoreError};
use windlass_engine::{Client, EngineError, Handlers};

use crate::cleanup::{Cleaner, CleanupTask};
use crate::health::Check;
use crate::host::{Host, Opened};
use crate::inventory::{Inventory, clashes};
use crate::metrics::Metrics;
use crate::page::{Asset, Page};
use crate::registry::{Figures, Pack, Registry};
use crate::route::Route;
use crate::service::{Process, Service, Services};
use crate::settings::{Setting, Settings};
use crate::verb::Verb;

/// The parts of one process.
pub struct Assembly {
    parts: Vec<Registry>,
    opened: Arc<OnceLock<Opened>>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the part {part} cannot start: {why}")]
    Part { part: &'static str, why: String },
}

/// The configuration keys of all parts, read before the parts are assembled.
pub fn settings_of(packs: &[Arc<dyn Pack>]) -> Vec<Setting> {
    packs.iter().flat_map(|pack| pack.settings()).collect()
}

impl Assembly {
    /// Registers all parts. `taken` are names already in use by the host. All problems are reported at once.
    pub fn new(
        packs: &[Arc<dyn Pack>],
        settings: Settings,
        taken: Vec<Inventory>,
    ) -> Result<Assembly, Invalid> {
        let (settings, opened) = (Arc::new(settings), Arc::new(OnceLock::new()));
        let mut invalid = Invalid::default();
        let mut owners = taken;
        let mut parts = Vec::with_capacity(packs.len());
        for pack in packs {
            let name = pack.name();
            check_name(name, &owners, &mut invalid);
            let mut registry = Registry::new(Host::new(name, opened.clone()), settings.clone());
            pack.register(&mut registry);
            check_part(&registry, &mut invalid);
            owners.push(Inventory::of_part(&registry, &pack.settings()));
            parts.push(registry);
        }
        clashes(&owners, &mut invalid);
        invalid.into_result()?;
        Ok(Assembly { parts, opened })
    }

    /// Queues of the parts.
    pub fn queues(&self) -> Vec<QueueSpec> {
        self.parts.iter().flat_map(|part| part.queues.clone()).collect()
    }

    /// Kinds of the parts.
    pub fn kinds(&self) -> Vec<KindSpec> {
        self.parts.iter().flat_map(|part| part.handlers.specs()).collect()
    }

    /// Handlers of this process.
    pub fn handlers(&self) -> Handlers {
        let mut handlers = Handlers::default();
        for part in &self.parts {
            handlers.extend(part.handlers.clone());
        }
        handlers
    }

    pub fn budgets(&self) -> Vec<BudgetSpec> {
        self.parts.iter().flat_map(|part| part.budgets.clone()).collect()
    }

    pub fn schedules(&self) -> Vec<ScheduleSpec> {
        self.parts.iter().flat_map(|part| part.schedules.clone()).collect()
    }

    /// Tables in a backup: those of the engine and of all parts.
    pub fn holdings(&self) -> Holdings {
        let mut holdings = Holdings::core();
        for part in &self.parts {
            holdings.tables.extend(&part.tables);
            if !part.steps.is_empty() {
                let (name, steps) = (part.host.pack().to_owned(), part.steps.clone());
                holdings.packs.push(HeldPack { name, steps });
            }
        }
        holdings
    }

    /// Parts with their own tables, and the migrations of those.
    pub fn migrations(&self) -> Vec<(&'static str, &[PackStep])> {
        let with_steps = self.parts.iter().filter(|part| !part.steps.is_empty());
        with_steps.map(|part| (part.host.pack(), part.steps.as_slice())).collect()
    }

    /// Migrates the tables of all parts and returns the steps applied.
    pub async fn migrate(&self, store: &dyn Store) -> Result<Vec<(&'static str, i64)>, StoreError> {
        let mut applied = Vec::new();
        for (pack, steps) in self.migrations() {
            let versions = store.migrate_pack_up(pack, steps).await?;
            applied.extend(versions.into_iter().map(|version| (pack, version)));
        }
        Ok(applied)
    }

    /// Checks that the tables of all parts match this binary.
    pub async fn check(&self, store: &dyn Store) -> Result<(), StoreError> {
        for (pack, steps) in self.migrations() {
            store.check_pack(pack, steps).await?;
        }
        Ok(())
    }

    pub fn verbs(&self) -> Vec<Verb> {
        self.parts.iter().flat_map(|part| part.verbs.clone()).collect()
    }

    pub fn metrics(&self) -> Vec<Metrics> {
        self.parts.iter().flat_map(|part| part.metrics.clone()).collect()
    }

    pub fn figures(&self) -> Vec<Figures> {
        self.parts.iter().flat_map(|part| part.figures.clone()).collect()
    }

    pub fn checks(&self) -> Vec<Check> {
        self.parts.iter().flat_map(|part| part.checks.clone()).collect()
    }

    pub fn cleanup(&self) -> Vec<CleanupTask> {
        self.parts.iter().flat_map(|part| part.cleanup.clone()).collect()
    }

    pub fn pages(&self) -> Vec<Page> {
        self.parts.iter().flat_map(|part| part.pages.clone()).collect()
    }

    pub fn assets(&self) -> Vec<Asset> {
        self.parts.iter().flat_map(|part| part.assets.clone()).collect()
    }

    pub fn take_routes(&mut self) -> Vec<Route> {
        self.parts.iter_mut().flat_map(|part| std::mem::take(&mut part.routes)).collect()
    }

    /// Starts the services of all parts, and the one that runs cleanup tasks.
    pub fn start(&self, store: Arc<dyn Store>, process: Process) -> Services {
        let mut services: Vec<Box<dyn Service>> = vec![Box::new(Cleaner::new(self.cleanup()))];
        services.extend(self.parts.iter().flat_map(|part| &part.services).map(|make| make()));
        services.retain(|service| service.runs().in_process(process));
        Services::start(store, services)
    }

    /// Gives routes and verbs of the parts access to the database. Writes nothing.
    pub fn visit(&mut self, client: Client) -> Result<(), OpenError> {
        let types = self.parts.iter().flat_map(|part| part.types.clone()).collect();
        let _ = self.opened.set(Opened::new(client, types, self.holdings()));
        for part in &mut self.parts {
            for visit in std::mem::take(&mut part.visitors) {
                let visited = visit(&part.host);
                visited.map_err(|error| OpenError::Part { part: part.host.pack(), why: error.chain() })?;
            }
        }
        Ok(())
    }

    /// Like [`Assembly::visit`], for a process that runs the parts: writes their budgets and schedules and opens each.
    pub async fn open(&mut self, client: &Client) -> Result<(), OpenError> {
        self.visit(client.clone())?;
        client.set_budgets(&self.budgets()).await?;
        for part in &mut self.parts {
            for open in std::mem::take(&mut part.openers) {
                open().await.map_err(|why| OpenError::Part { part: part.host.pack(), why })?;
            }
        }
        for schedule in self.schedules() {
            client.put_own_schedule(&schedule).await?;
        }
        Ok(())
    }
}

/// The name becomes part of table and metric names.
fn check_name(name: &'static str, owners: &[Inventory], invalid: &mut Invalid) {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(fits) || name.len() > 32 {
        invalid.add(format!("pack `{name}`"), "must be 1 to 32 of a–z 0–9 _ and begin with a letter");
    }
    if owners.iter().any(|owner| owner.owner == name) {
        invalid.add(format!("pack `{name}`"), "is added twice");
    }
}

fn check_part(registry: &Registry, invalid: &mut Invalid) {
    for route in registry.routes.iter().filter(|route| route.scope.is_none()) {
        let rule = format!("{} does not say which scope it needs (Route::needs)", registry.host.pack());
        invalid.add(format!("route `{} {}`", route.method, route.path), rule);
    }
    if let Err(broken) = check_steps(registry.host.pack(), &registry.steps) {
        invalid.problems.extend(broken.problems);
    }
    if let Err(twice) = registry.handlers.check() {
        invalid.problems.extend(twice.problems);
    }
}
