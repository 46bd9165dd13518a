//! The client: enqueue jobs, wait for them, read and change them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, Weak};
use std::time::{Duration, Instant};

use windlass_core::input::MAX_BATCH;
use windlass_core::resource::MAX_PERMITS;
use windlass_core::store::Enqueued;
use windlass_core::{Invalid, JobId, KindSpec, NewJob, OnConflict, QueueSpec, Store, StoreError, TxRef};

use crate::coalesce::Coalescer;
use crate::depth::DepthCaps;
use crate::wait::Waiters;
use crate::worker::permits::Pools;
use crate::{Catalog, EngineError, EnqueueError, JobRequest, Meter, Waited};

/// Cheap to clone; all clones share one database handle.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// How long a producer may miss an operator's change of a queue.
const CATALOG_FRESH: Duration = Duration::from_secs(10);
const MAX_CONCURRENCY: u32 = 10_000;
/// Single enqueues in one commit.
const MAX_COALESCED: usize = 1_000;

struct Inner {
    store: Arc<dyn Store>,
    catalog: RwLock<(Arc<Catalog>, Instant)>,
    refreshing: AtomicBool,
    /// The schema was found missing. When it is back, kinds and queues may have other numbers.
    distrusted: AtomicBool,
    enqueues: Coalescer<NewJob, Result<Enqueued, EnqueueError>>,
    depth: DepthCaps,
    waiters: Waiters,
    meter: Meter,
    pools: Pools,
}

impl Client {
    /// Checks the schema, registers `queues` and `kinds`, and loads the whole registry.
    pub async fn open(
        store: Arc<dyn Store>,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
    ) -> Result<Client, EngineError> {
        store.check_schema().await?;
        let registered: Vec<String> =
            store.queues().await?.into_iter().map(|state| state.spec.name).collect();
        check_registry(queues, kinds, &registered)?;
        // Who registers nothing only looks, and writes nothing.
        if !queues.is_empty() || !kinds.is_empty() {
            store.sync_registry(queues, kinds, None).await?;
        }
        let catalog = RwLock::new((Arc::new(Catalog::load(store.as_ref()).await?), Instant::now()));
        let enqueues = coalesced(Arc::downgrade(&store));
        let inner = Inner {
            store,
            catalog,
            refreshing: AtomicBool::new(false),
            distrusted: AtomicBool::new(false),
            enqueues,
            depth: DepthCaps::default(),
            waiters: Waiters::default(),
            meter: Meter::default(),
            pools: Pools::default(),
        };
        Ok(Client { inner: Arc::new(inner) })
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// What the workers on this client ran since it was opened.
    pub fn meter(&self) -> &Meter {
        &self.inner.meter
    }

    /// Permits of each resource, shared by all workers on this client.
    pub(crate) fn pools(&self) -> &Pools {
        &self.inner.pools
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.dated_catalog().0
    }

    fn dated_catalog(&self) -> (Arc<Catalog>, Instant) {
        match self.inner.catalog.read() {
            Ok(catalog) => catalog.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    /// Reads the registry again: another process may have added kinds or changed a queue. Entries are never removed, so
    /// missing ones went with a schema that was dropped and made again; they are registered again.
    pub async fn refresh(&self) -> Result<Arc<Catalog>, StoreError> {
        let store = self.store().as_ref();
        let mut fresh = Catalog::load(store).await?;
        let (queues, kinds) = self.catalog().missing_in(&fresh);
        if !queues.is_empty() || !kinds.is_empty() {
            tracing::warn!(kinds = kinds.len(), "the registry was emptied; registering again");
            store.sync_registry(&queues, &kinds, None).await?;
            fresh = Catalog::load(store).await?;
        }
        let fresh = Arc::new(fresh);
        if let Ok(mut catalog) = self.inner.catalog.write() {
            *catalog = (fresh.clone(), Instant::now());
        }
        Ok(fresh)
    }

    /// Refreshes in the background, once at a time: thousands of callers may find the catalog old at the same moment,
    /// and none of them has to wait.
    fn refresh_behind(&self) {
        if self.inner.refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let client = self.clone();
        tokio::spawn(async move {
            if let Err(error) = client.refresh().await {
                tracing::debug!(
                    error = error.chain(),
                    "the registry could not be read again; the old one stays"
                );
            }
            client.inner.refreshing.store(false, Ordering::Release);
        });
    }

    /// Returns once the job is durable.
    pub async fn enqueue(&self, request: JobRequest) -> Result<Enqueued, EnqueueError> {
        let job = match self.resolve(vec![request]).await?.pop() {
            Some(job) => job,
            None => return Err(Invalid::one("jobs", "must not be empty").into()),
        };
        if job.is_plain() {
            return self.watched(self.inner.enqueues.ask(job).await.unwrap_or_else(|| Err(closed())));
        }
        let enqueued = self.watched(self.inner.store.enqueue(std::slice::from_ref(&job)).await)?;
        enqueued.into_iter().next().ok_or_else(|| Invalid::one("jobs", "were not written").into())
    }

    /// All or nothing; the answer is in the order of the requests.
    pub async fn enqueue_many(&self, requests: Vec<JobRequest>) -> Result<Vec<Enqueued>, EnqueueError> {
        let jobs = self.resolve(requests).await?;
        no_duplicate_keys(&jobs)?;
        self.watched(self.inner.store.enqueue(&jobs).await)
    }

    /// Inside the caller's transaction: the jobs exist once it commits, and not at all if it rolls back.
    pub async fn enqueue_in(
        &self,
        tx: TxRef<'_>,
        requests: Vec<JobRequest>,
    ) -> Result<Vec<Enqueued>, EnqueueError> {
        let jobs = self.resolve(requests).await?;
        no_duplicate_keys(&jobs)?;
        self.watched(self.inner.store.enqueue_in(tx, &jobs).await)
    }

    /// Refuses jobs that would exceed a queue's depth cap.
    pub(crate) async fn admit(&self, catalog: &Catalog, jobs: &[NewJob]) -> Result<(), EnqueueError> {
        self.inner.depth.admit(self.inner.store.as_ref(), catalog, jobs).await
    }

    /// Passes a result on; remembers when it says that the schema is missing.
    pub(crate) fn watched<T, E: Into<EnqueueError>>(&self, result: Result<T, E>) -> Result<T, EnqueueError> {
        let result = result.map_err(Into::into);
        if let Err(EnqueueError::Store(error)) = &result
            && matches!(**error, StoreError::SchemaMissing)
        {
            self.inner.distrusted.store(true, Ordering::Release);
        }
        result
    }

    /// Waits until the job is finished, by any process.
    pub async fn wait(&self, id: JobId, patience: Duration) -> Result<Waited, StoreError> {
        self.inner.waiters.wait(self.inner.store.as_ref(), id, patience).await
    }

    pub(crate) fn finished(&self, id: JobId) {
        self.inner.waiters.finished(id);
    }

    /// The catalog, read again if the schema was missing or a kind is unknown. An old one is used as it is and
    /// refreshed in the background.
    pub(crate) async fn catalog_for<'k>(
        &self,
        mut kinds: impl Iterator<Item = &'k str>,
    ) -> Result<Arc<Catalog>, StoreError> {
        let (catalog, loaded) = self.dated_catalog();
        if self.inner.distrusted.load(Ordering::Acquire) {
            let catalog = self.refresh().await?;
            self.inner.distrusted.store(false, Ordering::Release);
            return Ok(catalog);
        }
        if kinds.any(|kind| catalog.kind_named(kind).is_none()) {
            return self.refresh().await;
        }
        if loaded.elapsed() > CATALOG_FRESH {
            self.refresh_behind();
        }
        Ok(catalog)
    }

    /// Every rule that the requests break. With `each`, fields are prefixed with the index of their request:
    /// `[3].kind`.
    pub async fn check_jobs(&self, requests: Vec<JobRequest>, each: bool) -> Result<Invalid, StoreError> {
        let catalog = self.catalog_for(requests.iter().map(|request| request.kind.as_str())).await?;
        Ok(resolve_all(requests, &catalog, each).err().unwrap_or_default())
    }

    pub(crate) async fn resolve(&self, requests: Vec<JobRequest>) -> Result<Vec<NewJob>, EnqueueError> {
        if requests.len() > MAX_BATCH {
            let rule = format!("has {} entries; at most {MAX_BATCH} are allowed at once", requests.len());
            return Err(Invalid::one("jobs", rule).into());
        }
        let catalog = self.catalog_for(requests.iter().map(|request| request.kind.as_str())).await?;
        let several = requests.len() > 1;
        let jobs = resolve_all(requests, &catalog, several)?;
        self.admit(&catalog, &jobs).await?;
        Ok(jobs)
    }
}

/// Plain jobs of many callers in one commit: nothing about one of them can make the store refuse the others.
fn coalesced(store: Weak<dyn Store>) -> Coalescer<NewJob, Result<Enqueued, EnqueueError>> {
    Coalescer::start(MAX_COALESCED, 1, move |jobs: Vec<NewJob>| {
        // Held only during a call, so that the database is closed when the client is dropped.
        let store = store.upgrade();
        async move {
            let enqueued = match store {
                Some(store) => store.enqueue(&jobs).await.map_err(EnqueueError::from),
                None => Err(closed()),
            };
            match enqueued {
                Ok(enqueued) => enqueued.into_iter().map(Ok).collect(),
                Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
            }
        }
    })
}

fn closed() -> EnqueueError {
    let (what, why) = ("the client".to_owned(), "it was closed".to_owned());
    StoreError::Open { what, why }.into()
}

fn resolve_all(requests: Vec<JobRequest>, catalog: &Catalog, each: bool) -> Result<Vec<NewJob>, Invalid> {
    let mut invalid = Invalid::default();
    let mut jobs = Vec::with_capacity(requests.len());
    for (n, request) in requests.into_iter().enumerate() {
        match request.resolve(catalog) {
            Ok(job) => jobs.push(job),
            Err(error) => invalid.problems.extend(error.problems.into_iter().map(|mut problem| {
                if each {
                    problem.field = format!("[{n}].{}", problem.field);
                }
                problem
            })),
        }
    }
    invalid.into_result()?;
    Ok(jobs)
}

/// Reports every clash, unknown queue and bad value at once, before anything is written.
fn check_registry(queues: &[QueueSpec], kinds: &[KindSpec], registered: &[String]) -> Result<(), Invalid> {
    let known: Vec<&str> =
        queues.iter().map(|q| q.name.as_str()).chain(registered.iter().map(String::as_str)).collect();
    let mut invalid = Invalid::default();
    for (n, queue) in queues.iter().enumerate() {
        let field = format!("queues.{}", queue.name);
        invalid.check_name(&field, &queue.name);
        invalid.check_priority(&format!("{field}.priority"), i64::from(queue.priority));
        if queue.concurrency == 0 || queue.concurrency > MAX_CONCURRENCY {
            invalid.add(format!("{field}.concurrency"), "must be 1 to 10000");
        }
        if queue.bounds.is_some_and(|b| b.min == 0 || b.min > b.max || b.max > MAX_CONCURRENCY) {
            invalid.add(format!("{field}.bounds"), "must be 1 to 10000, the lower one first");
        }
        if queues[..n].iter().any(|other| other.name.eq_ignore_ascii_case(&queue.name)) {
            invalid.add(field, "is described twice");
        }
    }
    for (n, kind) in kinds.iter().enumerate() {
        let field = format!("kinds.{}", kind.name);
        invalid.check_name(&field, &kind.name);
        invalid.check_attempts(&format!("{field}.max_attempts"), i64::from(kind.max_attempts));
        invalid.check_key_concurrency(&format!("{field}.key_concurrency"), i64::from(kind.key_concurrency));
        if let Some(priority) = kind.priority {
            invalid.check_priority(&format!("{field}.priority"), i64::from(priority));
        }
        if !known.contains(&kind.queue.as_str()) {
            let rule = format!("names no known queue: `{}`; known: {}", kind.queue, known.join(", "));
            invalid.add(format!("{field}.queue"), rule);
        }
        if kinds[..n].iter().any(|other| other.name == kind.name) {
            invalid.add(field, "is registered twice");
        }
    }
    check_resources(queues, kinds, &mut invalid);
    invalid.into_result()
}

/// A resource has one number of permits, even if several queues and kinds state it.
fn check_resources(queues: &[QueueSpec], kinds: &[KindSpec], invalid: &mut Invalid) {
    let of_queues = queues.iter().map(|queue| (format!("queues.{}", queue.name), &queue.resource));
    let of_kinds = kinds.iter().map(|kind| (format!("kinds.{}", kind.name), &kind.resource));
    let mut stated: HashMap<&str, (u32, String)> = HashMap::new();
    for (field, resource) in of_queues.chain(of_kinds) {
        let Some(resource) = resource else { continue };
        invalid.check_name(&format!("{field}.resource"), &resource.name);
        let Some(permits) = resource.permits else { continue };
        if !(1..=MAX_PERMITS).contains(&permits) {
            invalid.add(format!("{field}.permits"), format!("must be 1 to {MAX_PERMITS}, not {permits}"));
        }
        match stated.get(resource.name.as_str()) {
            Some((other, place)) if *other != permits => {
                let rule = format!(
                    "gives `{}` {permits}, but {place} gives it {other}; state it once",
                    resource.name
                );
                invalid.add(format!("{field}.permits"), rule);
            }
            Some(_) => {}
            None => {
                stated.insert(&resource.name, (permits, field));
            }
        }
    }
}

/// Refuses two jobs of one call with the same unique key where the second would be rejected: the store's error would
/// name a job that is never written. Repeats of earlier requests are found by the store.
fn no_duplicate_keys(jobs: &[NewJob]) -> Result<(), Invalid> {
    let mut invalid = Invalid::default();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (n, job) in jobs.iter().enumerate().filter(|(_, job)| job.idempotency.is_none()) {
        let Some(unique) = &job.unique else { continue };
        match seen.get(unique.key.as_str()) {
            Some(first) if unique.on_conflict == OnConflict::Reject => {
                let rule =
                    format!("is that of [{first}] too, and on_conflict is reject: only one of them can wait");
                invalid.add(format!("[{n}].unique_key"), rule);
            }
            Some(_) => {}
            None => {
                seen.insert(&unique.key, n);
            }
        }
    }
    invalid.into_result()
}

#[cfg(test)]
mod tests {
    use windlass_core::Resource;
    use windlass_core::scale::Bounds;

    use futures_util::future::try_join_all;
    use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
    use windlass_store_postgres::{Options, PostgresStore};
    use windlass_testkit::signal::{Seen, wait_until};

    use super::*;

    #[test]
    fn bounds_and_permits_that_clash_are_refused_all_at_once() {
        let queue = |name: &str, min, max, resource| QueueSpec {
            bounds: Some(Bounds { min, max }),
            resource,
            ..QueueSpec::named(name)
        };
        let kind = |name: &str, permits| KindSpec {
            resource: Some(Resource { name: "browser".to_owned(), permits }),
            ..KindSpec::new(name, "A")
        };
        let queues = [
            queue("A", 1, 20, Some(Resource::new("browser", 3))),
            queue("B", 9, 8, Some(Resource::new("two words", 1))),
            queue("C", 0, 20_000, Some(Resource::new("none", 0))),
        ];
        let kinds = [kind("SAME", Some(3)), kind("ANY", None), kind("OTHER", Some(4))];
        let found = check_registry(&queues, &kinds, &[]).unwrap_err();
        let fields: Vec<&str> = found.problems.iter().map(|problem| problem.field.as_str()).collect();
        let expected = [
            "queues.B.bounds",
            "queues.C.bounds",
            "queues.B.resource",
            "queues.C.permits",
            "kinds.OTHER.permits",
        ];
        assert_eq!(fields, expected);
        assert!(found.to_string().contains("queues.A gives it 3"), "{found}");
    }

    /// Postgres, because there a reader of the registry can be blocked and counted.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_old_catalog_is_read_again_once_and_no_caller_waits_for_it() {
        let url = std::env::var("WINDLASS_TEST_POSTGRES_URL")
            .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
        let schema = format!("wl_catalog_{}", std::process::id());
        let store =
            PostgresStore::connect(&format!("{url}?schema={schema}"), Options::default()).await.unwrap();
        store.migrate_up(None).await.unwrap();
        let kinds = [KindSpec::new("OLD", "DEFAULT")];
        let client = Client::open(Arc::new(store), &[QueueSpec::named("DEFAULT")], &kinds).await.unwrap();
        let old = Instant::now().checked_sub(CATALOG_FRESH * 2).unwrap();
        *client.inner.catalog.write().unwrap() = (client.catalog(), old);

        let mut admin = PgConnection::connect(&url).await.unwrap();
        let lock = format!("begin; lock table {schema}.kinds in access exclusive mode");
        admin.execute(AssertSqlSafe(lock)).await.unwrap();
        let jobs = (0..200).map(|_| client.enqueue(JobRequest::new("OLD", b"{}".to_vec())));
        let enqueued = tokio::time::timeout(Duration::from_secs(8), try_join_all(jobs)).await;
        assert_eq!(enqueued.expect("a caller waited for the registry").unwrap().len(), 200);
        let waiting = format!(
            "select count(*) from pg_locks where not granted and relation = '{schema}.kinds'::regclass"
        );
        wait_until("a refresh to wait for the registry", Duration::from_secs(8), || async {
            let mut admin = PgConnection::connect(&url).await.unwrap();
            let waiting = sqlx::query_scalar(AssertSqlSafe(waiting.clone())).fetch_one(&mut admin);
            let waiting: i64 = waiting.await.unwrap();
            assert!(waiting <= 1, "{waiting} refreshes at once");
            Seen::when(waiting, |waiting| *waiting == 1)
        })
        .await;
        admin.execute("rollback").await.unwrap();
        wait_until("the catalog to be new", Duration::from_secs(8), || async {
            Seen::when(client.dated_catalog().1, |loaded| *loaded > old)
        })
        .await;
        client.store().close().await;
        admin.execute(AssertSqlSafe(format!("drop schema {schema} cascade"))).await.unwrap();
    }
}
