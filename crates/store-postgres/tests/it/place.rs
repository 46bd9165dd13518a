//! A separate schema for each test, dropped when the test ends.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::{AssertSqlSafe, PgPool};
use windlass_core::store::{Claim, QueueKinds, WorkerInfo};
use windlass_core::{
    JobId, JobState, KindId, KindSpec, LeasedJob, NewJob, QueueId, QueueSpec, RunAt, Settlement, Store,
    Verdict, WorkerId,
};
use windlass_store_postgres::{Options, PostgresStore};
use windlass_testkit::signal::{Seen, wait_until};

static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Place {
    pub(crate) store: PostgresStore,
    /// Plain connections for statements that the store has no method for.
    pub(crate) pool: PgPool,
    pub(crate) schema: String,
    pub(crate) kind: KindId,
    pub(crate) queue: QueueId,
}

pub(crate) fn server() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned())
}

impl Place {
    /// A store on an empty schema, before any migration.
    pub(crate) async fn bare() -> Place {
        let schema = fresh_schema();
        let pool = PgPool::connect(&server()).await.unwrap();
        let store = open(&schema).await;
        Place { store, pool, schema, kind: KindId(0), queue: QueueId(0) }
    }

    pub(crate) async fn new() -> Place {
        let mut place = Place::bare().await;
        place.store.migrate_up(None).await.unwrap();
        place.store.sync_registry(&[QueueSpec::named("Q")], &[KindSpec::new("k", "Q")], None).await.unwrap();
        let (kind, queue, _) = place.store.kinds().await.unwrap().remove(0);
        (place.kind, place.queue) = (kind, queue);
        place
    }

    /// Another process on the same schema.
    pub(crate) async fn other(&self) -> PostgresStore {
        open(&self.schema).await
    }

    pub(crate) async fn end(self) {
        self.store.close().await;
        self.sql(&format!("drop schema if exists {} cascade", self.schema)).await;
        self.pool.close().await;
    }

    pub(crate) fn rendered(&self, text: &str) -> String {
        text.replace("windlass.", &format!("{}.", self.schema))
    }

    pub(crate) async fn sql(&self, text: &str) {
        sqlx::raw_sql(AssertSqlSafe(self.rendered(text))).execute(&self.pool).await.unwrap();
    }

    pub(crate) async fn number(&self, text: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(self.rendered(text))).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a session of the store waits for a lock in this schema.
    pub(crate) async fn wait_for_blocked_session(&self) {
        self.wait_for_blocked_sessions(1).await;
    }

    pub(crate) async fn wait_for_blocked_sessions(&self, many: i64) {
        let waiting = "select count(*) from pg_stat_activity
                       where wait_event_type = 'Lock' and query like '%' || rtrim('windlass.', '.') || '.%'";
        wait_until("sessions to wait for a lock", Duration::from_secs(20), || async {
            Seen::when(self.number(waiting).await, |sessions| *sessions >= many)
        })
        .await;
    }

    pub(crate) fn job(&self) -> NewJob {
        NewJob {
            kind: self.kind,
            queue: self.queue,
            priority: 5,
            payload: b"{}".to_vec(),
            run_at: RunAt::Now,
            max_attempts: 5,
            timeout: None,
            unique: None,
            idempotency: None,
            concurrency_key: None,
            tags: Vec::new(),
            entity: None,
        }
    }

    pub(crate) async fn put(&self, count: usize) -> Vec<JobId> {
        let jobs: Vec<NewJob> = (0..count).map(|_| self.job()).collect();
        self.store.enqueue(&jobs).await.unwrap().iter().map(|e| e.id).collect()
    }

    pub(crate) async fn worker(&self) -> WorkerId {
        let info = WorkerInfo {
            label: "host:1".to_owned(),
            queues: vec![self.queue],
            lease: Duration::from_secs(60),
        };
        self.store.register_worker(&info).await.unwrap()
    }

    pub(crate) fn claim(&self, worker: WorkerId, limit: u32) -> Claim {
        Claim {
            worker,
            queue: self.queue,
            kinds: vec![self.kind],
            limit,
            level: windlass_core::sweep::Level::Ordinary,
        }
    }

    pub(crate) fn served(&self) -> Vec<QueueKinds> {
        vec![QueueKinds { queue: self.queue, kinds: vec![self.kind] }]
    }

    pub(crate) async fn lease(&self, worker: WorkerId, limit: u32) -> Vec<LeasedJob> {
        self.store.claim(&self.claim(worker, limit)).await.unwrap()
    }

    pub(crate) async fn state(&self, id: JobId) -> JobState {
        self.store.job(id).await.unwrap().unwrap().job.state
    }
}

pub(crate) fn fresh_schema() -> String {
    format!("it_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn drop_schema(schema: &str) {
    let pool = PgPool::connect(&server()).await.unwrap();
    let text = format!("drop schema if exists {schema} cascade");
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&pool).await.unwrap();
    pool.close().await;
}

pub(crate) async fn open(schema: &str) -> PostgresStore {
    open_with(schema, Options::default()).await
}

pub(crate) async fn open_with(schema: &str, options: Options) -> PostgresStore {
    let url = server();
    let join = if url.contains('?') { '&' } else { '?' };
    PostgresStore::connect(&format!("{url}{join}schema={schema}"), options).await.unwrap()
}

pub(crate) fn settlement(job: &LeasedJob, verdict: Verdict) -> Settlement {
    Settlement {
        id: job.id,
        token: job.token,
        queue: job.queue,
        attempt: job.attempt,
        started_at: job.claimed_at,
        workflow: job.workflow,
        lane: job.lane,
        holds_key: job.holds_key,
        verdict,
    }
}

pub(crate) fn done() -> Verdict {
    Verdict::End { state: JobState::Completed, result: None, error: None }
}

pub(crate) fn ended(state: JobState, error: &str) -> Verdict {
    Verdict::End { state, result: None, error: Some(error.to_owned()) }
}
