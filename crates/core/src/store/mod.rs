//! The contract between the engine and a database, in terms of jobs.
//!
//! A store is done when it passes the conformance suite of `windlass-testkit`. Rules such as legal transitions, backoff
//! and crash counting are decided by the caller and passed in. A store only writes the result, in one transaction per
//! call unless a method says otherwise.
//!
//! Every method that changes a leased job is fenced by its token: a stale token changes nothing, and the result says
//! so.
//!
//! Methods for operators take an `actor`. The audit record is written in the same transaction as the change, and only
//! if something changed. `None` means the system itself or the application's own code, and writes no audit record.

mod audits;
mod backups;
mod budgets;
mod entities;
mod error;
mod jobs;
mod limits;
mod packs;
mod schedules;
mod sql;
mod tx;
mod wake;
mod workers;
mod workflows;

use async_trait::async_trait;

pub use crate::audit::AuditRecord;
pub use audits::{AuditFilter, AuditStore};
pub use backups::{BackupNote, BackupStore, Export, Import};
pub use budgets::{
    Ask, Booked, Budget, BudgetStore, COSTS_SHOWN, Call, Changed, Charged, Cost, Costs, Entry, Fired, Grant,
    Leak, Reserved, UNKNOWN,
};
pub use entities::{
    BoxDone, BoxEnd, BoxOutcome, ChangedEntity, Changes, EntityRecord, EntityStore, FeedMark, Saved, Written,
};
pub use error::{KindMoved, PackTrouble, StoreError};
pub use jobs::{
    Action, Bulk, Change, Claim, Enqueued, JobDetail, JobFilter, LateJobs, Page, Prune, PruneWhat, Report,
    ReportBody, Settled,
};
pub use limits::{Backlog, CONFIGURED, KindLimits, Live, Permits, ResourceUse, TokenLease, WorkerLimits};
pub use packs::PackStore;
pub use schedules::{DueSchedules, Put, SchedulePut, ScheduleRecord, ScheduleStore, Tick};
pub use sql::{FromSql, Sql, SqlRow, SqlValue};
pub use tx::{StoreTx, TxRef};
pub use wake::{OnWake, Wake, Wakers};
pub use workers::{
    Counted, DEAD_SHOWN, DEPTH_SHOWN, DeadCount, DeadLetter, LATENCY_BUCKETS, Poll, QueueDue, QueueKinds,
    QueueState, Reclaimed, Rollup, SuspectsDue, WorkerInfo, WorkerRow, latency_bucket, latency_quantile,
};
pub use workflows::{
    Counts, MemberRecord, Parent, Started, WorkflowDetail, WorkflowFilter, WorkflowRecord, WorkflowStore,
};

pub use crate::kind::KindUpdate;
pub use crate::limit::LiveOverride;
pub use crate::queue::QueueUpdate;

use crate::audit::Actor;
use crate::sweep::{Death, Look};
use crate::{JobId, KindSpec, NewJob, QueueId, QueueSpec, Settlement, Time, Token, WorkerId};

#[async_trait]
pub trait Store:
    EntityStore
    + ScheduleStore
    + BudgetStore
    + WorkflowStore
    + BackupStore
    + PackStore
    + AuditStore
    + Send
    + Sync
    + 'static
{
    /// `sqlite` or `postgres`.
    fn name(&self) -> &'static str;

    /// The database clock, plus the test offset.
    async fn now(&self) -> Result<Time, StoreError>;

    /// Shifts this handle's view of the database clock. For tests; 0 otherwise.
    fn set_clock_offset(&self, micros: i64);

    /// Registers a callback. It runs after each commit, notification or write by another process that may have made
    /// work due, until it returns false. Any number can be registered, and each gets every call.
    fn on_wake(&self, wake: OnWake);

    /// Stops background tasks and closes connections. Later calls fail.
    async fn close(&self);

    // Schema ---------------------------------------------------------------------------------------------------

    /// Every known migration, oldest first, with the time it was applied.
    async fn migrations(&self) -> Result<Vec<Migration>, StoreError>;

    /// Applies missing migrations up to `to`, or all. Returns the versions applied. Several processes may call it at
    /// once.
    async fn migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>, StoreError>;

    /// Reverts every migration above `to` and returns their versions. Fails with [`StoreError::PacksLeft`] if that
    /// would drop the record of pack migrations while packs still have tables.
    async fn migrate_down(&self, to: i64) -> Result<Vec<i64>, StoreError>;

    /// Fails, and says what to do, when the schema is missing, too old or too new for this binary. Tables of packs are
    /// checked by [`PackStore::check_pack`].
    async fn check_schema(&self) -> Result<(), StoreError>;

    // Registry -------------------------------------------------------------------------------------------------

    /// Adds new queues and kinds and updates changed ones. Live values are kept. If kinds already belong to another
    /// queue, the error names all of them and nothing is written. A kind that an actor adds is audited.
    async fn sync_registry(
        &self,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
        actor: Option<&Actor>,
    ) -> Result<(), StoreError>;

    async fn kinds(&self) -> Result<Vec<(crate::KindId, QueueId, KindSpec)>, StoreError>;

    async fn queues(&self) -> Result<Vec<QueueState>, StoreError>;

    /// False if there is no such queue.
    async fn update_queue(&self, queue: QueueId, update: &QueueUpdate) -> Result<bool, StoreError>;

    /// False if there is no such kind.
    async fn update_kind(&self, kind: crate::KindId, update: &KindUpdate) -> Result<bool, StoreError>;

    /// Every value that an operator set live, ordered by name: queues first, then kinds, then resources.
    async fn live_overrides(&self) -> Result<Vec<LiveOverride>, StoreError>;

    /// Number of waiting jobs; counting stops at `cap`.
    async fn depth(&self, queue: QueueId, cap: u64) -> Result<u64, StoreError>;

    /// Number of due jobs, where counting stops at `cap`, and of workers that serve the queue.
    async fn backlog(&self, queue: QueueId, cap: u64) -> Result<Backlog, StoreError>;

    // Enqueue --------------------------------------------------------------------------------------------------

    /// All or nothing. Results are in the order of `jobs`.
    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError>;

    /// Like [`Store::enqueue`], in the caller's transaction. Until that commits, nothing is visible and no worker is
    /// woken.
    async fn enqueue_in(&self, tx: TxRef<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError>;

    /// Opens a transaction on the same database, for application data and jobs together.
    async fn begin(&self) -> Result<Box<dyn StoreTx>, StoreError>;

    // Statements -----------------------------------------------------------------------------------------------

    /// Runs statements in the caller's transaction. A transaction that cannot be used is reported here or by the first
    /// statement.
    fn sql_in<'a>(&'a self, tx: TxRef<'a>) -> Result<Box<dyn Sql + 'a>, StoreError>;

    /// Read-only statements. Each runs on its own, so data may change between two of them.
    async fn read(&self) -> Result<Box<dyn Sql>, StoreError>;

    // Work -----------------------------------------------------------------------------------------------------

    /// Leases up to `claim.limit` due jobs in (priority, run_at, id) order and counts the attempt. If the queue has a
    /// global concurrency, all workers together never hold more leases than that.
    async fn claim(&self, claim: &Claim) -> Result<Vec<crate::LeasedJob>, StoreError>;

    /// Leases ordinary jobs that have been due for longer than `after`, longest due first, regardless of priority.
    /// Skips blocked jobs.
    async fn claim_late(&self, claim: &Claim, after: std::time::Duration) -> Result<LateJobs, StoreError>;

    /// Returns `unspent` rate tokens of the kind and leases up to `wanted`, as [`crate::Rate::lease`] decides by the
    /// database clock. A kind without a rate gets all it wants.
    async fn lease_tokens(
        &self,
        kind: crate::KindId,
        wanted: u32,
        unspent: u32,
    ) -> Result<TokenLease, StoreError>;

    /// Other jobs may now run beside the job on trial of this claim. False if the claim is gone.
    async fn clear_alone(&self, token: Token) -> Result<bool, StoreError>;

    /// Settles attempts. Results are in the order of `settlements`.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError>;

    /// Settles one attempt in the caller's transaction, so that a side effect and its completion commit together.
    async fn settle_in(&self, tx: TxRef<'_>, settlement: &Settlement) -> Result<Settled, StoreError>;

    /// Stores progress and log lines, drops those whose lease was lost, and returns how many it stored.
    async fn report(&self, reports: &[Report]) -> Result<u64, StoreError>;

    /// One query for everything a worker polls: what is due for each set of kinds, when the next job and the next tick
    /// are due, the limits in force, and the jobs to cancel. The same queue may appear several times with different
    /// kinds.
    async fn poll(&self, worker: WorkerId, served: &[QueueKinds]) -> Result<Poll, StoreError>;

    // Workers --------------------------------------------------------------------------------------------------

    async fn register_worker(&self, info: &WorkerInfo) -> Result<WorkerId, StoreError>;

    /// Extends the worker's lease. False if the worker was declared dead; then all of its leases are lost.
    async fn heartbeat(&self, worker: WorkerId) -> Result<bool, StoreError>;

    /// Releases jobs that the worker leases under tokens it does not know: claims whose response got lost. Returns how
    /// many.
    async fn release_unknown(&self, worker: WorkerId, known: &[Token]) -> Result<u64, StoreError>;

    /// The worker begins to shut down. A death after this is not blamed on its jobs.
    async fn announce_stop(&self, worker: WorkerId) -> Result<(), StoreError>;

    /// Ends a worker's registration. Jobs it still leases are handed back.
    async fn retire_worker(&self, worker: WorkerId) -> Result<(), StoreError>;

    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError>;

    /// Replaces the limits the worker reported before. False if the worker was declared dead.
    async fn report_limits(&self, worker: WorkerId, limits: &WorkerLimits) -> Result<bool, StoreError>;

    /// The heartbeats and locks of all workers. The sweeper compares successive looks.
    async fn look(&self) -> Result<Look, StoreError>;

    /// Takes back all leases of a dead worker, unless it has beaten since.
    async fn reclaim(&self, death: &Death) -> Result<Option<Reclaimed>, StoreError>;

    // Operate --------------------------------------------------------------------------------------------------

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError>;

    /// Newest first.
    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<crate::JobRecord>, StoreError>;

    /// Exact: not capped.
    async fn count(&self, filter: &JobFilter) -> Result<u64, StoreError>;

    /// Failed jobs and dead letters per queue, counted among the newest `cap` overall, so recent ones always show.
    /// Queues without any are left out.
    async fn dead_letters(&self, cap: u64) -> Result<Vec<DeadCount>, StoreError>;

    /// Applies `action` to up to `limit` matching jobs. Jobs in a state that does not allow it are skipped and counted.
    /// [`crate::audit::named_jobs`] each get their own audit record. For other filters there is one record per
    /// transaction, with its counts; a large operation takes several.
    async fn act(
        &self,
        filter: &JobFilter,
        action: Action,
        limit: u32,
        actor: Option<&Actor>,
    ) -> Result<Bulk, StoreError>;

    /// Changes priority or `run_at` of a waiting job. False if it is not waiting.
    async fn change(&self, id: JobId, change: &Change, actor: Option<&Actor>) -> Result<bool, StoreError>;

    /// Deletes what retention allows, in short transactions. With an actor, the last transaction writes one audit
    /// record, unless there was nothing to delete.
    async fn prune(&self, prune: &Prune, actor: Option<&Actor>) -> Result<u64, StoreError>;

    /// Appends what workers and sweepers counted since their last call.
    async fn record(&self, rollups: &[Rollup]) -> Result<(), StoreError>;

    async fn rollups(&self, since: Time) -> Result<Vec<Rollup>, StoreError>;

    /// Checks for `doctor`.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    pub version: i64,
    pub name: String,
    pub applied_at: Option<Time>,
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub name: String,
    pub ok: bool,
    pub finding: String,
    pub remedy: Option<String>,
}

/// Throughput of a store's bare SQL loop, the reference for `bench queue`.
#[derive(Clone, Copy, Debug)]
pub struct BenchLimit {
    pub enqueue_per_s: f64,
    pub drain_per_s: f64,
}
