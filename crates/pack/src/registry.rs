//! What a part brings. A registry only collects; nothing is opened, written or started here.

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

/// A part of the system: one folder, and one line in the composition root.
pub trait Pack: Send + Sync {
    /// In the names of its tables (`<name>_*`), its configuration (`[packs.<name>]`), its metrics, pages and verbs.
    fn name(&self) -> &'static str;

    /// Its configuration keys. They are known before [`Pack::register`], which sees their values.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// What the keys alone cannot show: how their values fit together. Fields are named by their path.
    fn check(&self, _settings: &Settings) -> Invalid {
        Invalid::default()
    }

    /// Adds what the part brings, and does nothing else: it also runs where the system is only described.
    fn register(&self, registry: &mut Registry);
}

/// Runs once, when the system is open and before anything is served.
pub(crate) type Opener = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Runs as soon as the database can be reached, by whoever only looks too.
pub(crate) type Visitor = Box<dyn FnOnce(&Host) -> Result<(), StoreError> + Send + Sync>;

/// Each start of the workers has a service of its own.
pub(crate) type MakeService = Box<dyn Fn() -> Box<dyn Service> + Send + Sync>;

/// A figure of the moment, for `GET /v1/stats`.
#[derive(Clone)]
pub struct Figures {
    /// Name and meaning of each.
    pub known: Vec<(&'static str, &'static str)>,
    /// In the same order. Must be cheap: it is read every second while a dashboard is open.
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

    /// For handlers to hold on to.
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

    /// Written at start; it keeps its last tick.
    pub fn schedule(&mut self, spec: ScheduleSpec) -> &mut Self {
        self.schedules.push(spec);
        self
    }

    pub fn budget(&mut self, spec: BudgetSpec) -> &mut Self {
        self.budgets.push(spec);
        self
    }

    /// Searchable where the index runs.
    pub fn entity_type(&mut self, spec: TypeSpec) -> &mut Self {
        self.types.push(spec);
        self
    }

    /// A change of this part's tables, numbered from 1.
    pub fn migration(&mut self, step: PackStep) -> &mut Self {
        self.steps.push(step);
        self
    }

    /// A table that backups copy.
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

    /// A script or picture of its pages.
    pub fn asset(&mut self, asset: Asset) -> &mut Self {
        self.assets.push(asset);
        self
    }

    pub fn verb(&mut self, verb: Verb) -> &mut Self {
        self.verbs.push(verb);
        self
    }

    /// Series that are read together at each scrape.
    pub fn metrics<F, R>(&mut self, series: &[Series], collect: F) -> &mut Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Samples, String>> + Send + 'static,
    {
        let collect = Arc::new(move || -> BoxFuture<'static, _> { Box::pin(collect()) });
        self.metrics.push(Metrics { series: series.to_vec(), collect });
        self
    }

    /// Figures of the moment beside those of the queues.
    pub fn figures<F, R>(&mut self, known: &[(&'static str, &'static str)], read: F) -> &mut Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Option<u64>>, StoreError>> + Send + 'static,
    {
        let read = Arc::new(move || -> BoxFuture<'static, _> { Box::pin(read()) });
        self.figures.push(Figures { known: known.to_vec(), read });
        self
    }

    pub fn check<F, R>(&mut self, name: &'static str, look: F) -> &mut Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Finding>, String>> + Send + 'static,
    {
        self.checks.push(Check { name, look: Arc::new(move || Box::pin(look())) });
        self
    }

    /// A clean-up task. A run that an operator asked for and that removed something gets its line in the audit here.
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

    /// The same for a task that writes its line in the transaction of its last removal.
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

    /// A loop that the runtime starts and stops.
    pub fn service<S: Service + 'static>(
        &mut self,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> &mut Self {
        self.services.push(Box::new(move || Box::new(make())));
        self
    }

    /// Runs once when the database can be reached, before [`Registry::on_open`] and also where nothing is served: a verb that
    /// calls routes in its own process. For handing something to other parts ([`Host::offer`]); it must not write.
    pub fn on_visit<F>(&mut self, visit: F) -> &mut Self
    where
        F: FnOnce(&Host) -> Result<(), StoreError> + Send + Sync + 'static,
    {
        self.visitors.push(Box::new(visit));
        self
    }

    /// Runs once when the system is open, in the order of the parts; an error ends the start.
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
