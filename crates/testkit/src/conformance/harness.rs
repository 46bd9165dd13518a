//! The start of every case: an empty, migrated database with two queues and three kinds, and short methods for the
//! usual operations.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::outcome::{Settlement, decide};
use windlass_core::store::{
    Action, Bulk, Claim, JobDetail, JobFilter, Poll, QueueKinds, Reclaimed, Settled, WorkerInfo,
};
use windlass_core::sweep::{Beat, Death, Level, Suspicion};
use windlass_core::time::micros;
use windlass_core::{
    Backoff, JobId, JobState, KindId, KindSpec, LeasedJob, NewJob, OnConflict, Outcome, QueueId, QueueSpec,
    RunAt, Store, Time, Unique, WorkerId,
};

pub const QUEUE: &str = "MAIN";
pub const OTHER_QUEUE: &str = "OTHER";
pub const KIND: &str = "plain";
/// Another kind of [`QUEUE`].
pub const SECOND_KIND: &str = "second";
/// The kind of [`OTHER_QUEUE`].
pub const OTHER_KIND: &str = "elsewhere";

/// Lease of the workers.
pub(super) const LEASE: Duration = Duration::from_secs(60);

type Opening = Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>>;
type Handles = Arc<Mutex<Vec<Arc<dyn Store>>>>;

pub struct Harness {
    pub store: Arc<dyn Store>,
    pub queue: QueueId,
    pub other_queue: QueueId,
    pub kind: KindId,
    pub second_kind: KindId,
    pub other_kind: KindId,
    handles: Handles,
    open: Box<dyn Fn() -> Opening + Send + Sync>,
    offset: AtomicI64,
    guard: Option<Box<dyn Any + Send>>,
}

impl Harness {
    /// `open` returns a new handle on one empty database, as another process would have. `guard` removes the database
    /// when dropped, after every handle is closed and the runtime has ended.
    pub async fn new<F, Opened>(open: F, guard: impl Any + Send) -> Harness
    where
        F: Fn() -> Opened + Send + Sync + 'static,
        Opened: Future<Output = Arc<dyn Store>> + Send + 'static,
    {
        let store = open().await;
        store.migrate_up(None).await.unwrap();
        store.check_schema().await.unwrap();
        let (queues, kinds) = registry();
        store.sync_registry(&queues, &kinds, None).await.unwrap();
        let queues = store.queues().await.unwrap();
        let kinds = store.kinds().await.unwrap();
        let queue = |name: &str| queues.iter().find(|q| q.spec.name == name).expect("queue registered").id;
        let kind = |name: &str| kinds.iter().find(|(_, _, k)| k.name == name).expect("kind registered").0;
        Harness {
            queue: queue(QUEUE),
            other_queue: queue(OTHER_QUEUE),
            kind: kind(KIND),
            second_kind: kind(SECOND_KIND),
            other_kind: kind(OTHER_KIND),
            handles: Arc::new(Mutex::new(vec![store.clone()])),
            store,
            open: Box::new(move || Box::pin(open())),
            offset: AtomicI64::new(0),
            guard: Some(Box::new(guard)),
        }
    }

    pub(super) fn take_guard(&mut self) -> Option<Box<dyn Any + Send>> {
        self.guard.take()
    }

    pub(super) fn handles(&self) -> Handles {
        self.handles.clone()
    }

    /// A handle as in another process, with the same clock.
    pub async fn open(&self) -> Arc<dyn Store> {
        let handle = (self.open)().await;
        handle.set_clock_offset(self.offset.load(Ordering::SeqCst));
        self.handles.lock().unwrap().push(handle.clone());
        handle
    }

    // Clock ----------------------------------------------------------------------------------------------------

    /// Sets the clock of every handle to `seconds` after the real one.
    pub fn set_clock(&self, seconds: i64) {
        self.offset.store(seconds * 1_000_000, Ordering::SeqCst);
        for handle in self.handles.lock().unwrap().iter() {
            handle.set_clock_offset(seconds * 1_000_000);
        }
    }

    pub fn advance(&self, by: Duration) {
        self.set_clock((self.offset.load(Ordering::SeqCst) + micros(by)) / 1_000_000);
    }

    pub async fn now(&self) -> Time {
        self.store.now().await.unwrap()
    }

    // Jobs -----------------------------------------------------------------------------------------------------

    /// A plain job of [`KIND`], due now.
    pub fn job(&self) -> NewJob {
        NewJob {
            kind: self.kind,
            queue: self.queue,
            priority: 5,
            payload: b"{\"n\":1}".to_vec(),
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

    pub fn delayed(&self, by: Duration) -> NewJob {
        NewJob { run_at: RunAt::In(by), ..self.job() }
    }

    pub fn unique(&self, key: &str, on_conflict: OnConflict) -> NewJob {
        NewJob { unique: Some(Unique::until_started(key, on_conflict)), ..self.job() }
    }

    /// Enqueues a job that must be new.
    pub async fn put(&self, job: NewJob) -> JobId {
        let got = self.store.enqueue(&[job]).await.unwrap();
        assert_eq!(got.len(), 1);
        assert!(!got[0].duplicate, "a new job was answered as a duplicate");
        got[0].id
    }

    pub async fn put_plain(&self, count: usize) -> Vec<JobId> {
        let got = self.store.enqueue(&vec![self.job(); count]).await.unwrap();
        got.into_iter().map(|e| e.id).collect()
    }

    pub async fn detail(&self, id: JobId) -> JobDetail {
        self.store.job(id).await.unwrap().unwrap_or_else(|| panic!("job {id} is gone"))
    }

    pub async fn state(&self, id: JobId) -> JobState {
        self.detail(id).await.job.state
    }

    pub async fn count(&self, state: JobState) -> u64 {
        self.store.count(&JobFilter { states: vec![state], ..JobFilter::default() }).await.unwrap()
    }

    pub async fn act(&self, ids: &[JobId], action: Action) -> Bulk {
        let filter = JobFilter { ids: ids.to_vec(), ..JobFilter::default() };
        self.store.act(&filter, action, 1_000, None).await.unwrap()
    }

    // Work -----------------------------------------------------------------------------------------------------

    pub async fn worker(&self) -> WorkerId {
        let info = WorkerInfo {
            label: "host:1".to_owned(),
            queues: vec![self.queue, self.other_queue],
            lease: LEASE,
        };
        self.store.register_worker(&info).await.unwrap()
    }

    /// Both queues with all their kinds.
    pub fn served(&self) -> Vec<QueueKinds> {
        let kinds = vec![self.kind, self.second_kind];
        let other = QueueKinds { queue: self.other_queue, kinds: vec![self.other_kind] };
        vec![QueueKinds { queue: self.queue, kinds }, other]
    }

    pub async fn poll(&self, worker: WorkerId) -> Poll {
        self.store.poll(worker, &self.served()).await.unwrap()
    }

    /// A claim of both kinds of [`QUEUE`].
    pub fn ask(&self, worker: WorkerId, limit: u32) -> Claim {
        Claim {
            worker,
            queue: self.queue,
            kinds: vec![self.kind, self.second_kind],
            limit,
            level: Level::Ordinary,
        }
    }

    pub async fn claim(&self, worker: WorkerId, limit: u32) -> Vec<LeasedJob> {
        self.store.claim(&self.ask(worker, limit)).await.unwrap()
    }

    pub async fn claim_one(&self, worker: WorkerId) -> LeasedJob {
        let mut got = self.claim(worker, 1).await;
        assert_eq!(got.len(), 1, "one due job should be leased");
        got.remove(0)
    }

    pub async fn claim_level(&self, worker: WorkerId, level: Level) -> Vec<LeasedJob> {
        self.store.claim(&Claim { level, ..self.ask(worker, 10) }).await.unwrap()
    }

    /// Leases a job that lost its worker, whatever its level.
    pub async fn claim_suspect(&self, worker: WorkerId) -> Option<LeasedJob> {
        for level in [Level::Trial, Level::Second, Level::Ordinary] {
            let one = Claim { level, ..self.ask(worker, 1) };
            let Some(job) = self.store.claim(&one).await.unwrap().pop() else { continue };
            if job.suspicion != Suspicion::NONE {
                return Some(job);
            }
            assert_eq!(self.settle(&job, Outcome::HandBack).await, Settled::Accepted);
        }
        None
    }

    /// A worker runs the suspect, when it may run again, and dies.
    pub async fn suspect_dies(&self) -> Reclaimed {
        self.advance(Duration::from_secs(600));
        let worker = self.worker().await;
        self.claim_suspect(worker).await.expect("a suspect waits");
        self.lose(worker).await
    }

    pub async fn settle(&self, job: &LeasedJob, outcome: Outcome) -> Settled {
        let got = self.store.settle(&[settlement(job, outcome)]).await.unwrap();
        assert_eq!(got.len(), 1);
        got[0]
    }

    pub async fn done(&self, job: &LeasedJob) {
        assert_eq!(self.settle(job, Outcome::Done { result: None }).await, Settled::Accepted);
    }

    pub async fn beat(&self, worker: WorkerId) -> Beat {
        let beats = self.store.look().await.unwrap().beats;
        *beats.iter().find(|b| b.worker == worker).unwrap_or_else(|| panic!("no beat of worker {worker}"))
    }

    /// Lets the worker's lease expire and reclaims its jobs, as the sweeper would.
    pub async fn lose(&self, worker: WorkerId) -> Reclaimed {
        self.advance(LEASE + Duration::from_secs(1));
        let beat = self.beat(worker).await;
        assert!(beat.expired, "a worker silent for longer than its lease is expired");
        self.store.reclaim(&unexplained(beat)).await.unwrap().expect("the worker has not beaten since")
    }
}

pub(super) fn unexplained(beat: Beat) -> Death {
    Death { beat, explained: false }
}

fn registry() -> (Vec<QueueSpec>, Vec<KindSpec>) {
    (
        vec![QueueSpec::named(QUEUE), QueueSpec::named(OTHER_QUEUE)],
        vec![
            KindSpec::new(KIND, QUEUE),
            KindSpec::new(SECOND_KIND, QUEUE),
            KindSpec::new(OTHER_KIND, OTHER_QUEUE),
        ],
    )
}

/// The settlement the engine would write for `outcome`. A retry without its own delay waits 30 s after the first
/// attempt.
pub fn settlement(job: &LeasedJob, outcome: Outcome) -> Settlement {
    Settlement {
        id: job.id,
        token: job.token,
        queue: job.queue,
        attempt: job.attempt,
        started_at: job.claimed_at,
        workflow: job.workflow,
        lane: job.lane,
        holds_key: job.holds_key,
        verdict: decide(job, outcome, &Backoff::default(), 0.5),
    }
}

/// A filter that matches only this job.
pub fn only(id: JobId) -> JobFilter {
    JobFilter { ids: vec![id], ..JobFilter::default() }
}
