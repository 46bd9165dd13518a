//! The builder, and the handle that an application keeps.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::TypeSpec;
use windlass_core::entity::Change;
use windlass_core::store::{Enqueued, Started, WorkflowDetail, Written};
use windlass_core::{BudgetSpec, Invalid, JobId, QueueSpec, Store, StoreError, WorkflowId};
use windlass_engine::worker::Drained;
use windlass_engine::{
    Client, Completion, EngineError, EnqueueError, HandlerResult, Handlers, JobError, JobRequest, Retention,
    Waited, Worker, WorkerHandle, WorkerOptions, batch_handler, handler,
};
use windlass_index::embed::{BuiltIn, Embedder};
use windlass_index::{Entities, EntityError, IndexPack, SaveRequest, SearchAnswer, SearchRequest};
use windlass_pack::service::{Process, Services};
use windlass_pack::settings::Settings;
use windlass_pack::{Assembly, Inventory, OpenError, Pack, settings_of};
use windlass_store_postgres::PostgresStore;
use windlass_store_sqlite::SqliteStore;

use crate::parts::{EnginePart, families};
use crate::{AsTx, Context, Job, Request, Schedule, Tx, Workflow, schedule};

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("`{0}` is not the scheme of a database Windlass knows; write sqlite://PATH or postgres://…")]
    UnknownDatabase(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Two packs use the same name, or a pack or its configuration breaks a rule. Lists every problem.
    #[error("the packs do not fit together: {0}")]
    Parts(Invalid),
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl From<StoreError> for BuildError {
    fn from(error: StoreError) -> Self {
        BuildError::Engine(error.into())
    }
}

/// How enqueued jobs run in an application's tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestMode {
    /// Workers run them, as in production.
    #[default]
    Off,
    /// `enqueue` returns after the job and the jobs it enqueued have run. `enqueue_in` is refused: the job would run
    /// before its transaction commits, and on SQLite its handler would wait for that transaction.
    Inline,
}

pub struct Builder {
    database: String,
    /// Queues that the application defines; queues of packs are registered separately.
    queues: Vec<QueueSpec>,
    budgets: Vec<BudgetSpec>,
    handlers: Handlers,
    worker: WorkerOptions,
    retention: Retention,
    migrate: bool,
    test_mode: TestMode,
    schedules: Vec<Schedule>,
    /// Types besides `document`; `None` when entities are off.
    types: Option<Vec<TypeSpec>>,
    embedder: Option<Arc<dyn Embedder>>,
    packs: Vec<Arc<dyn Pack>>,
    /// Path and value of each setting.
    settings: Vec<(String, String)>,
}

impl Builder {
    /// `sqlite://PATH` or `postgres://…`.
    pub fn database(mut self, url: impl Into<String>) -> Builder {
        self.database = url.into();
        self
    }

    /// Adds a queue, or changes the values of one of the five default queues.
    pub fn queue(mut self, spec: QueueSpec) -> Builder {
        self.queues.retain(|known| known.name != spec.name);
        self.queues.push(spec);
        self
    }

    /// Adds a monthly budget of money or tokens. Handlers reserve from it with
    /// [`Context::reserve`](windlass_engine::Context::reserve).
    pub fn budget(mut self, spec: BudgetSpec) -> Builder {
        self.budgets.retain(|known| known.name != spec.name);
        self.budgets.push(spec);
        self
    }

    /// Registers the handler of one kind of job.
    pub fn job<J, F, R, T>(mut self, run: F) -> Builder
    where
        J: Job,
        F: Fn(Context, J) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, JobError>> + Send + 'static,
        T: Into<Completion> + 'static,
    {
        self.handlers.add(J::spec(), handler(move |context, job: J| run(Context::new(context), job)));
        self
    }

    /// Registers a handler that takes up to `size` jobs per call.
    pub fn batch_job<J, F, R>(mut self, size: usize, run: F) -> Builder
    where
        J: Job,
        F: Fn(Vec<(Context, J)>) -> R + Send + Sync + 'static,
        R: Future<Output = Vec<HandlerResult>> + Send + 'static,
    {
        let run = move |jobs: Vec<(windlass_engine::Context, J)>| {
            run(jobs.into_iter().map(|(context, job)| (Context::new(context), job)).collect())
        };
        self.handlers.add(J::spec(), batch_handler(size, run));
        self
    }

    /// Adds or updates a schedule while building. A schedule that is no longer in the code stays until it is deleted.
    pub fn schedule(mut self, schedule: Schedule) -> Builder {
        self.schedules.push(schedule);
        self
    }

    /// Turns on entities and search, with these types besides `document`.
    pub fn entities(mut self, types: impl IntoIterator<Item = TypeSpec>) -> Builder {
        self.types.get_or_insert_default().extend(types);
        self
    }

    /// Replaces the built-in embedder. Every process on a database must use the same one.
    pub fn embedder(mut self, embedder: impl Embedder + 'static) -> Builder {
        self.embedder = Some(Arc::new(embedder));
        self
    }

    /// Adds a pack and everything it registers.
    pub fn pack(mut self, pack: impl Pack + 'static) -> Builder {
        self.packs.push(Arc::new(pack));
        self
    }

    /// Sets a configuration key of a pack, as in the file: `.setting("packs.guestbook.longest", "100")`.
    pub fn setting(mut self, path: impl Into<String>, value: impl Into<String>) -> Builder {
        self.settings.push((path.into(), value.into()));
        self
    }

    pub fn worker(mut self, options: WorkerOptions) -> Builder {
        self.worker = options;
        self
    }

    /// How long finished jobs, dead letters, idempotency keys and statistics are kept. The default is 7, 30, 1 and 30
    /// days. The clean-up runs with the workers of [`Windlass::start`].
    pub fn retention(mut self, retention: Retention) -> Builder {
        self.retention = retention;
        self
    }

    /// Brings the schema up to date while building. A new SQLite file is always migrated.
    pub fn migrate(mut self) -> Builder {
        self.migrate = true;
        self
    }

    pub fn test_mode(mut self, mode: TestMode) -> Builder {
        self.test_mode = mode;
        self
    }

    pub async fn build(mut self) -> Result<Windlass, BuildError> {
        let index = self.types.take().map(|types| {
            let embedder = self.embedder.take().unwrap_or_else(|| Arc::new(BuiltIn::default()));
            Arc::new(IndexPack::new(embedder, types))
        });
        let mut assembly = self.assemble(index.clone())?;
        let (store, fresh) = open(&self.database).await?;
        if self.migrate || fresh {
            store.migrate_up(None).await?;
            assembly.migrate(store.as_ref()).await?;
        }
        store.check_schema().await?;
        assembly.check(store.as_ref()).await?;
        self.handlers.extend(assembly.handlers());
        self.handlers.check().map_err(EngineError::from)?;
        let queues = with_queues_of_packs(store.as_ref(), self.queues, assembly.queues()).await?;
        let client = Client::open(store, &queues, &self.handlers.specs()).await?;
        client.set_budgets(&self.budgets).await?;
        assembly.open(&client).await?;
        for schedule in self.schedules {
            put_schedule(&client, schedule).await?;
        }
        Ok(Windlass {
            client,
            entities: index.and_then(|index| index.entities()),
            assembly: Arc::new(assembly),
            handlers: Arc::new(self.handlers),
            worker: self.worker,
            test_mode: self.test_mode,
        })
    }

    /// Combines all packs and checks them against each other and against the application's own definitions.
    fn assemble(&self, index: Option<Arc<IndexPack>>) -> Result<Assembly, BuildError> {
        let mut packs: Vec<Arc<dyn Pack>> = vec![Arc::new(EnginePart { retention: Some(self.retention) })];
        packs.extend(index.map(|index| index as Arc<dyn Pack>));
        packs.extend(self.packs.iter().cloned());
        let mut settings = Settings::new(settings_of(&packs));
        let mut invalid = Invalid::default();
        for (path, text) in &self.settings {
            if let Err(rule) = settings.set_path(path, text) {
                invalid.add(path, rule);
            }
        }
        for pack in &packs {
            invalid.problems.extend(pack.check(&settings).problems);
        }
        let mut application = Inventory::of("the application");
        application.kinds = self.handlers.specs().into_iter().map(|kind| kind.name).collect();
        // An application may redefine a default queue, so that is no clash.
        let families: Vec<String> = families().into_iter().map(|family| family.name).collect();
        let own = self.queues.iter().filter(|queue| !families.contains(&queue.name));
        application.queues = own.map(|queue| queue.name.clone()).collect();
        application.budgets = self.budgets.iter().map(|budget| budget.name.clone()).collect();
        let assembly = Assembly::new(&packs, settings, vec![application]).map_err(|clashes| {
            invalid.problems.extend(clashes.problems);
            BuildError::Parts(std::mem::take(&mut invalid))
        })?;
        invalid.into_result().map_err(BuildError::Parts)?;
        Ok(assembly)
    }
}

async fn put_schedule(client: &Client, schedule: Schedule) -> Result<(), EngineError> {
    let spec = schedule.into_spec()?;
    client.put_schedule(&spec, None).await.map(drop).map_err(|error| match error {
        EngineError::Invalid(invalid) => schedule::of(&spec.name, invalid).into(),
        other => other,
    })
}

/// The store, and whether it is a SQLite database without a schema yet.
async fn open(url: &str) -> Result<(Arc<dyn Store>, bool), BuildError> {
    if let Some(path) = url.strip_prefix("sqlite://") {
        let store = SqliteStore::open(std::path::Path::new(path), Default::default())?;
        let fresh = matches!(store.check_schema().await, Err(StoreError::SchemaMissing));
        return Ok((Arc::new(store), fresh));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok((Arc::new(PostgresStore::connect(url, Default::default()).await?), false));
    }
    // Shows only the scheme: the rest may contain a password.
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    Err(BuildError::UnknownDatabase(scheme.to_owned()))
}

/// The application's queues, and those queues of packs that neither the application nor the database defines. A
/// process that only enqueues must not reset queues that the servers have configured.
async fn with_queues_of_packs(
    store: &dyn Store,
    described: Vec<QueueSpec>,
    of_packs: Vec<QueueSpec>,
) -> Result<Vec<QueueSpec>, BuildError> {
    store.check_schema().await?;
    let registered: Vec<String> = store.queues().await?.into_iter().map(|state| state.spec.name).collect();
    let mut queues = described;
    for queue in of_packs {
        if !registered.contains(&queue.name) && !queues.iter().any(|known| known.name == queue.name) {
            queues.push(queue);
        }
    }
    Ok(queues)
}

/// The application's handle. Cheap to clone.
#[derive(Clone)]
pub struct Windlass {
    client: Client,
    entities: Option<Entities>,
    assembly: Arc<Assembly>,
    pub(crate) handlers: Arc<Handlers>,
    worker: WorkerOptions,
    test_mode: TestMode,
}

impl Windlass {
    pub fn builder() -> Builder {
        Builder {
            database: "sqlite://windlass-data/windlass.db".to_owned(),
            queues: Vec::new(),
            budgets: Vec::new(),
            handlers: Handlers::default(),
            worker: WorkerOptions::default(),
            retention: Retention::default(),
            migrate: false,
            test_mode: TestMode::Off,
            schedules: Vec::new(),
            types: None,
            embedder: None,
            packs: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// The operator's API: jobs by filter, queues, statistics.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The entity API; an error unless [`Builder::entities`] was called.
    pub fn entities(&self) -> Result<&Entities, EntityError> {
        self.entities.as_ref().ok_or(EntityError::Off)
    }

    /// Saves an entity. Returns once it is durable, and with the strategy sync once it is indexed.
    pub async fn save(&self, request: SaveRequest) -> Result<Written, EntityError> {
        self.entities()?.save(request).await
    }

    /// Saves an entity and its indexing job inside the caller's transaction: both exist if and only if it commits.
    pub async fn save_in(&self, tx: &mut impl AsTx, request: SaveRequest) -> Result<Written, EntityError> {
        self.entities()?.save_in(tx.as_tx(), request).await
    }

    /// Deletes an entity. The next search in any process does not find it; a tombstone without content stays.
    pub async fn delete(&self, entity_type: &str, id: &str) -> Result<Written, EntityError> {
        self.save(SaveRequest::new(entity_type, id, Change::Delete)).await
    }

    /// Deletes an entity inside the caller's transaction.
    pub async fn delete_in(
        &self,
        tx: &mut impl AsTx,
        entity_type: &str,
        id: &str,
    ) -> Result<Written, EntityError> {
        self.save_in(tx, SaveRequest::new(entity_type, id, Change::Delete)).await
    }

    /// Searches everything that any process committed before the call.
    pub async fn search(&self, request: SearchRequest) -> Result<SearchAnswer, EntityError> {
        self.entities()?.search(request).await
    }

    /// Enqueues a job. Returns once it is durable.
    pub async fn enqueue(&self, job: impl Into<Request>) -> Result<Enqueued, EnqueueError> {
        let enqueued = self.client.enqueue(job.into().into_inner()?).await?;
        self.after_enqueue().await?;
        Ok(enqueued)
    }

    /// Enqueues at most 10,000 jobs, all or none.
    pub async fn enqueue_many<J: Into<Request>>(
        &self,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<Enqueued>, EnqueueError> {
        let requests =
            jobs.into_iter().map(|job| job.into().into_inner()).collect::<Result<Vec<JobRequest>, _>>()?;
        let enqueued = self.client.enqueue_many(requests).await?;
        self.after_enqueue().await?;
        Ok(enqueued)
    }

    /// Enqueues a job inside the caller's transaction: it exists if and only if the transaction commits.
    pub async fn enqueue_in(
        &self,
        tx: &mut impl AsTx,
        job: impl Into<Request>,
    ) -> Result<Enqueued, EnqueueError> {
        if self.test_mode == TestMode::Inline {
            return Err(EnqueueError::InlineInTransaction);
        }
        let request = job.into().into_inner()?;
        let enqueued = self.client.enqueue_in(tx.as_tx(), vec![request]).await?;
        enqueued
            .into_iter()
            .next()
            .ok_or_else(|| windlass_core::Invalid::one("job", "was not written").into())
    }

    /// Enqueues all jobs of a workflow or none. Jobs without parents are in their queues when this returns.
    pub async fn enqueue_workflow(&self, workflow: Workflow) -> Result<Started, EnqueueError> {
        let started = self.client.enqueue_workflow(workflow.into_request()?).await?;
        self.after_enqueue().await?;
        Ok(started)
    }

    /// Enqueues a workflow inside the caller's transaction: it exists if and only if the transaction commits.
    pub async fn enqueue_workflow_in(
        &self,
        tx: &mut impl AsTx,
        workflow: Workflow,
    ) -> Result<Started, EnqueueError> {
        if self.test_mode == TestMode::Inline {
            return Err(EnqueueError::InlineInTransaction);
        }
        self.client.enqueue_workflow_in(tx.as_tx(), workflow.into_request()?).await
    }

    /// The state of a workflow and its jobs; `None` when there is no such workflow.
    pub async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowDetail>, StoreError> {
        self.client.store().workflow(id).await
    }

    /// Adds or updates a schedule. An update keeps the last tick.
    pub async fn put_schedule(&self, schedule: Schedule) -> Result<(), EngineError> {
        put_schedule(&self.client, schedule).await
    }

    /// Begins a transaction on Windlass' database. On SQLite use this one: it queues for the single writer.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(Tx::new(self.client.store().begin().await?))
    }

    /// Waits until a job has ended, in any process.
    pub async fn wait(&self, id: JobId, patience: Duration) -> Result<Waited, StoreError> {
        self.client.wait(id, patience).await
    }

    /// Starts the workers, the clean-up and the services of packs.
    pub async fn start(&self) -> Result<Workers, EngineError> {
        let handle = Worker::start(self.client.clone(), &self.handlers, self.worker.clone()).await?;
        let services = self.assembly.start(self.client.store().clone(), Process::Application);
        Ok(Workers { handle, services })
    }

    /// Runs all due jobs in this call, without workers. For tests.
    pub async fn drain(&self) -> Result<Drained, EngineError> {
        self.client.drain(&self.handlers).await
    }

    async fn after_enqueue(&self) -> Result<(), EnqueueError> {
        if self.test_mode == TestMode::Inline {
            self.drain().await.map_err(|error| match error {
                EngineError::Invalid(invalid) => EnqueueError::Invalid(invalid),
                EngineError::Store(error) => EnqueueError::from(error),
            })?;
        }
        Ok(())
    }
}

/// The running workers of this process.
pub struct Workers {
    handle: WorkerHandle,
    services: Services,
}

impl Workers {
    /// Stops claiming and waits for running jobs within the grace period. Returns the others to their queues without
    /// counting an attempt.
    pub async fn shutdown(self) -> Result<(), EngineError> {
        self.services.stop().await;
        self.handle.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use windlass_pack::cleanup::CleanupRun;

    use super::*;
    use crate::parts::Tryout;

    #[tokio::test]
    async fn the_builders_retention_is_used_by_the_clean_up() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/app.db", folder.path().display());
        let none = Retention { finished: Duration::ZERO, ..Retention::default() };
        for (retention, gone) in [(Retention::default(), 0), (none, 1)] {
            let builder = Windlass::builder().pack(Tryout::default());
            let windlass = builder.database(&url).retention(retention).build().await.unwrap();
            let job = JobRequest::new("NOOP", b"null".to_vec());
            windlass.client().enqueue(job).await.unwrap();
            windlass.drain().await.unwrap();
            let mut rows = 0;
            for task in windlass.assembly.cleanup() {
                let run = CleanupRun { older_than: task.older_than, dry_run: false, actor: None };
                rows += (task.remove)(run).await.unwrap();
            }
            assert_eq!(rows, gone * 2, "two jobs have finished by the second round");
        }
    }
}
