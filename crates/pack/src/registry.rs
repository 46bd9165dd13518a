//! What a part registers. A registry only collects; it opens, writes and starts nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use windlass_core::audit::NewAudit;
use windlass_core::backup::Table;
use windlass_core::pack::PackStep;
use windlass_core::schedule::ScheduleSpec;
use windlass_core::{BudgetSpec, Invalid, KindSpec, QueueSpec, StoreError, TypeSpec};
use windlass_engine::{Handler, Handlers};

use crate::cleanup::{CleanupRun, CleanupTask};
use crate::health::{Check, Finding};
use crate::host::Host;
use crate::metrics::{Metrics, Samples, Series};
use crate::page::{Asset, Page};
use crate::problem::Problem;
use crate::route::Route;
use crate::service::Service;
use crate::settings::{Setting, Settings};
use crate::verb::Verb;

/// A part of the system: one folder, and one line in `crates/cli/src/compose.rs`.
pub trait Pack: Send + Sync {
    /// Used in the names of its tables (`<name>_*`), configuration (`[packs.<name>]`), metrics, pages and verbs.
    fn name(&self) -> &'static str;

    /// Its configuration keys. They are read before [`Pack::register`], which gets their values.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// Checks values against each other. Problems use the path of a key as their field.
    fn check(&self, _settings: &Settings) -> Invalid {
        Invalid::default()
    }

    /// Registers everything and does nothing else: it also runs where the system is only described.
    fn register(&self, registry: &mut Registry);
}

/// Runs once the system is open, before anything is served.
pub(crate) type Opener = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Runs as soon as the database can be reached, also in processes that only read.
pub(crate) type Visitor = Box<dyn FnOnce(&Host) -> Result<(), StoreError> + Send + Sync>;

/// Each start of the workers gets its own service.
pub(crate) type MakeService = Box<dyn Fn() -> Box<dyn Service> + Send + Sync>;

/// Current values, for `GET /v1/stats`.
#[derive(Clone)]
pub struct Figures {
    /// Name and description of each.
    pub known: Vec<(&'static str, &'static str)>,
    /// Returns values in the same order. Must be cheap: it runs every second while a dashboard is open.
    pub read: ReadFigures,
}

pub(crate) type ReadFigures =
    Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<Option<u64>>, StoreError>> + Send + Sync>;

pub struct Registry {
    pub(crate) host: Host,
    pub(crate) settings: Arc<Settings>,
    pub(crate) queues: Vec<QueueSpec>,
    pub(crate) handlers: Handlers,
    pub(crate) schedules: Vec<ScheduleSpec>,
    pub(crate) budgets: Vec<BudgetSpec>,
    pub(crate) types: Vec<TypeSpec>,
    pub(crate) steps: Vec<PackStep>,
    pub(crate) tables: Vec<&'static Table>,
    pub(crate) routes: Vec<Route>,
    pub(crate) pages: Vec<Page>,
    pub(crate) assets: Vec<Asset>,
    pub(crate) verbs: Vec<Verb>,
    pub(crate) metrics: Vec<Metrics>,
    pub(crate) figures: Vec<Figures>,
    pub(crate) checks: Vec<Check>,
    pub(crate) cleanup: Vec<CleanupTask>,
    pub(crate) services: Vec<MakeService>,
    pub(crate) visitors: Vec<Visitor>,
    pub(crate) openers: Vec<Opener>,
}

impl Registry {
    pub(crate) fn new(host: Host, settings: Arc<Settings>) -> Registry {
        Registry {
            host,
            settings,
            queues: Vec::new(),
            handlers: Handlers::default(),
            schedules: Vec::new(),
            budgets: Vec::new(),
            types: Vec::new(),
            steps: Vec::new(),
            tables: Vec::new(),
            routes: Vec::new(),
            pages: Vec::new(),
            assets: Vec::new(),
            verbs: Vec::new(),
            metrics: Vec::new(),
            figures: Vec::new(),
            checks: Vec::new(),
            cleanup: Vec::new(),
            services: Vec::new(),
            visitors: Vec::new(),
            openers: Vec::new(),
        }
    }

    /// For handlers to keep.
    pub fn host(&self) -> Host {
        self.host.clone()
    }

    /// The values of this part's keys.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn queue(&mut self, spec: QueueSpec) -> &mut Self {
        self.queues.push(spec);
        self
    }

    /// A kind of job and the handler that runs it here.
    pub fn kind(&mut self, spec: KindSpec, handler: impl Handler) -> &mut Self {
        self.handlers.add(spec, handler);
        self
    }

    /// Written at startup; an existing schedule keeps its last tick.
    pub fn schedule(&mut self, spec: ScheduleSpec) -> &mut Self {
        self.schedules.push(spec);
        self
    }

    pub fn budget(&mut self, spec: BudgetSpec) -> &mut Self {
        self.budgets.push(spec);
        self
    }

    /// Searchable if the index is running.
    pub fn entity_type(&mut self, spec: TypeSpec) -> &mut Self {
        self.types.push(spec);
        self
    }

    /// A migration of this part's tables, numbered from 1.
    pub fn migration(&mut self, step: PackStep) -> &mut Self {
        self.steps.push(step);
        self
    }

    /// A table to back up.
    pub fn table(&mut self, table: &'static Table) -> &mut Self {
        self.tables.push(table);
        self
    }

    pub fn route(&mut self, route: Route) -> &mut Self {
        self.routes.push(route);
        self
    }

    pub fn page(&mut self, page: Page) -> &mut Self {
        self.pages.push(page);
        self
    }

    /// A script or image for its pages.
    pub fn asset(&mut self, asset: Asset) -> &mut Self {
        self.assets.push(asset);
        self
    }

    pub fn verb(&mut self, verb: Verb) -> &mut Self {
        self.verbs.push(verb);
        self
    }

    /// Series that are collected together at each scrape.
    pub fn metrics<F, R>(&mut self, series: &[Series], collect: F) -> &mut Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Samples, String>> + Send + 'static,
    {
        let collect = Arc::new(move || -> BoxFuture<'static, _> { Box::pin(collect()) });
        self.metrics.push(Metrics { series: series.to_vec(), collect });
        self
    }

    /// Current values to show next to those of the queues.
    pub fn figures<F, R>(&mut self, known: &[(&'static str, &'static str)], read: F) -> &mut Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Option<u64>>, StoreError>> + Send + 'static,
    {
        let read = Arc::new(move || -> BoxFuture<'static, _> { Box::pin(read()) });
        self.figures.push(Figures { known: known.to_vec(), read });
        self
    }

    pub fn check<F, R>(&mut self, name: &'static str, run: F) -> &mut Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Finding>, String>> + Send + 'static,
    {
        self.checks.push(Check { name, run: Arc::new(move || Box::pin(run())) });
        self
    }

    /// A cleanup task. A run that an operator requested and that removed something is audited here.
    pub fn cleanup<F, R>(
        &mut self,
        name: &'static str,
        description: &'static str,
        older_than: Duration,
        remove: F,
    ) -> &mut Self
    where
        F: Fn(CleanupRun) -> R + Send + Sync + 'static,
        R: Future<Output = Result<u64, Problem>> + Send + 'static,
    {
        let host = self.host();
        self.audited_cleanup(name, description, older_than, move |run: CleanupRun| {
            let (host, older_than, actor) = (host.clone(), run.older_than, run.actor.clone());
            let removing = remove(run);
            async move {
                let rows = removing.await?;
                if let (Some(actor), Some(note)) = (actor, NewAudit::cleanup_of(name, older_than, rows)) {
                    let mut tx = host.begin().await?;
                    tx.audit(&actor, &note).await?;
                    tx.commit().await?;
                }
                Ok(rows)
            }
        })
    }

    /// A cleanup task that writes its audit record in the transaction of its last removal.
    pub fn audited_cleanup<F, R>(
        &mut self,
        name: &'static str,
        description: &'static str,
        older_than: Duration,
        remove: F,
    ) -> &mut Self
    where
        F: Fn(CleanupRun) -> R + Send + Sync + 'static,
        R: Future<Output = Result<u64, Problem>> + Send + 'static,
    {
        let remove = Arc::new(move |run| -> BoxFuture<'static, _> { Box::pin(remove(run)) });
        self.cleanup.push(CleanupTask { name, description, older_than, remove });
        self
    }

    /// A background loop that the runtime starts and stops.
    pub fn service<S: Service + 'static>(
        &mut self,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> &mut Self {
        self.services.push(Box::new(move || Box::new(make())));
        self
    }

    /// Runs once when the database can be reached, before [`Registry::on_open`], and also where nothing is served, as
    /// in a verb that calls routes in its own process. Use it to offer something to other parts ([`Host::offer`]). It
    /// must not write.
    pub fn on_visit<F>(&mut self, visit: F) -> &mut Self
    where
        F: FnOnce(&Host) -> Result<(), StoreError> + Send + Sync + 'static,
    {
        self.visitors.push(Box::new(visit));
        self
    }

    /// Runs once when the system is open, in the order of the parts. An error aborts the start.
    pub fn on_open<F, R>(&mut self, open: F) -> &mut Self
    where
        F: FnOnce(Host) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), String>> + Send + 'static,
    {
        let host = self.host();
        self.openers.push(Box::new(move || Box::pin(open(host))));
        self
    }
}
