//! The contract between the engine and a database, in job verbs.
//!
//! A store is done when it passes `windlass-testkit`'s conformance suite. Rules (legal moves, backoff, crash
//! counting) are decided above this seam and handed in; a store only writes them, in one transaction per call.
//! Every method that changes a leased job is fenced by its token: a stale one changes nothing and says so.
//! What an operator can do takes an `actor`: its line in the audit is written in the transaction of the change, and only if
//! something changed. `None` is the system itself, or an application's own call.

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

pub use crate::audit::Act;
pub use audits::{ActFilter, AuditStore};
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
    Beat, Counted, DEAD_SHOWN, DEPTH_SHOWN, DeadCount, DeadLetter, LATENCY_BUCKETS, Poll, QueueDue,
    QueueKinds, QueueState, Reclaimed, Rollup, WorkerInfo, WorkerRow, latency_bucket, latency_quantile,
};
pub use workflows::{
    Counts, MemberRecord, Parent, Started, WorkflowDetail, WorkflowFilter, WorkflowRecord, WorkflowStore,
};

pub use crate::kind::KindUpdate;
pub use crate::limit::Overruled;
pub use crate::queue::QueueUpdate;

use crate::audit::Actor;
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

    /// The database's clock, plus the test offset.
    async fn now(&self) -> Result<Time, StoreError>;

    /// Moves this handle's view of the database clock; 0 outside tests.
    fn set_clock_offset(&self, micros: i64);

    /// Called after each commit, notification or foreign write that may have made work due, until it answers false.
    /// Any number may listen; each hears everything.
    fn on_wake(&self, wake: OnWake);

    /// Ends background tasks and closes connections. Calls after it fail.
    async fn close(&self);

    // Schema ---------------------------------------------------------------------------------------------------

    /// Every known migration with the time it was applied, oldest first.
    async fn migrations(&self) -> Result<Vec<Migration>, StoreError>;

    /// Applies what is missing up to `to` (or all), returns the versions applied. Safe from several processes.
    async fn migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>, StoreError>;

    /// Reverts every migration above `to`, returns the versions reverted. While packs have tables their record stays:
    /// [`StoreError::PacksLeft`].
    async fn migrate_down(&self, to: i64) -> Result<Vec<i64>, StoreError>;

    /// Fails with the remedy when the schema is missing, older or newer than this binary can use. Packs are their own matter.
    async fn check_schema(&self) -> Result<(), StoreError>;

    // Registry -------------------------------------------------------------------------------------------------

    /// Adds what is new and updates what changed; settings an operator changed live are kept. Kinds that already
    /// belong to another queue are refused, all of them by name, and nothing is written. A kind that is new by an actor's
    /// hand is a line in the audit.
    async fn sync_registry(
        &self,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
        actor: Option<&Actor>,
    ) -> Result<(), StoreError>;

    async fn kinds(&self) -> Result<Vec<(crate::KindId, QueueId, KindSpec)>, StoreError>;

    async fn queues(&self) -> Result<Vec<QueueState>, StoreError>;

    /// False when there is no such queue.
    async fn update_queue(&self, queue: QueueId, update: &QueueUpdate) -> Result<bool, StoreError>;

    /// False when there is no such kind.
    async fn update_kind(&self, kind: crate::KindId, update: &KindUpdate) -> Result<bool, StoreError>;

    /// Every value that holds because an operator set it live, by name: queues, then kinds, then resources.
    async fn overruled(&self) -> Result<Vec<Overruled>, StoreError>;

    /// Waiting jobs, counted no further than `cap`.
    async fn depth(&self, queue: QueueId, cap: u64) -> Result<u64, StoreError>;

    /// Due jobs, counted no further than `cap`, and the workers that serve the queue.
    async fn backlog(&self, queue: QueueId, cap: u64) -> Result<Backlog, StoreError>;

    // Enqueue --------------------------------------------------------------------------------------------------

    /// All or nothing, in order.
    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError>;

    /// The same inside the caller's transaction: nothing is visible, and nobody is woken, before its commit.
    async fn enqueue_in(&self, tx: TxRef<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError>;

    /// A transaction on the same database for application data and jobs together.
    async fn begin(&self) -> Result<Box<dyn StoreTx>, StoreError>;

    // Statements -----------------------------------------------------------------------------------------------

    /// Statements in the caller's transaction. What is wrong with that is said at once or by the first statement.
    fn sql_in<'a>(&'a self, tx: TxRef<'a>) -> Result<Box<dyn Sql + 'a>, StoreError>;

    /// Statements that only read, each by itself: what one saw may have changed when the next is run.
    async fn read(&self) -> Result<Box<dyn Sql>, StoreError>;

    // Work -----------------------------------------------------------------------------------------------------

    /// Leases at most `claim.limit` due jobs, in (priority, run_at, id) order, counting the attempt. Of a queue with a
    /// global concurrency never more than that are leased at once, whoever claims.
    async fn claim(&self, claim: &Claim) -> Result<Vec<crate::LeasedJob>, StoreError>;

    /// The same for jobs that have been due for longer than `after`: those due longest first, whatever their priority.
    /// Suspects and what stands in line are left alone.
    async fn claim_late(&self, claim: &Claim, after: std::time::Duration) -> Result<LateJobs, StoreError>;

    /// Takes back `unspent` rate tokens of the kind and leases at most `wanted`, as [`crate::Rate::lease`] decides by the
    /// database's clock. A kind without a rate gets all it wants.
    async fn lease_tokens(
        &self,
        kind: crate::KindId,
        wanted: u32,
        unspent: u32,
    ) -> Result<TokenLease, StoreError>;

    /// The suspect of this claim no longer runs alone (`alone` becomes false); false when the claim is gone.
    async fn in_company(&self, token: Token) -> Result<bool, StoreError>;

    /// Ends attempts. The answer is in the order of the question.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError>;

    /// One settlement inside the caller's transaction, so that an effect and its completion are one commit.
    async fn settle_in(&self, tx: TxRef<'_>, settlement: &Settlement) -> Result<Settled, StoreError>;

    /// Progress and log lines; those of a lost lease are dropped. Returns how many were kept.
    async fn report(&self, reports: &[Report]) -> Result<u64, StoreError>;

    /// The combined floor query: what is due of each set of kinds served, when the next job and the next tick are,
    /// which limits are in force, what to stop. A queue may be asked about more than once, with other kinds each time.
    async fn poll(&self, worker: WorkerId, served: &[QueueKinds]) -> Result<Poll, StoreError>;

    // Workers --------------------------------------------------------------------------------------------------

    async fn register_worker(&self, info: &WorkerInfo) -> Result<WorkerId, StoreError>;

    /// Extends the worker's lease; false when the worker was declared dead, in which case nothing of its is valid.
    async fn heartbeat(&self, worker: WorkerId) -> Result<bool, StoreError>;

    /// Hands back what the worker leases under tokens it does not know: claims whose answer was lost on the way.
    /// Returns how many jobs those were.
    async fn disown(&self, worker: WorkerId, known: &[Token]) -> Result<u64, StoreError>;

    /// A clean goodbye; anything still leased is returned as handed back.
    async fn retire_worker(&self, worker: WorkerId) -> Result<(), StoreError>;

    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError>;

    /// Replaces what the worker said about its limits before; false when the worker was declared dead.
    async fn report_limits(&self, worker: WorkerId, limits: &WorkerLimits) -> Result<bool, StoreError>;

    /// Whether [`Beat::gone`] is ever true here: then a death is seen at once by whoever looks.
    fn proves_deaths(&self) -> bool;

    /// What the sweeper compares between two looks.
    async fn beats(&self) -> Result<Vec<Beat>, StoreError>;

    /// Takes everything a dead worker leased, unless its heartbeat moved past `beat`.
    async fn reclaim(&self, beat: &Beat) -> Result<Option<Reclaimed>, StoreError>;

    // Operate --------------------------------------------------------------------------------------------------

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError>;

    /// Newest first.
    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<crate::JobRecord>, StoreError>;

    /// Exact.
    async fn count(&self, filter: &JobFilter) -> Result<u64, StoreError>;

    /// Failed jobs and dead letters of each queue that has some, counted among the newest `cap` of all of them: what is
    /// new shows, however much lies below.
    async fn dead_letters(&self, cap: u64) -> Result<Vec<DeadCount>, StoreError>;

    /// Applies `action` to at most `limit` jobs that match; jobs the action does not fit are left and counted. A filter that
    /// names one job leaves a line about that job; any other leaves one line per transaction, which for many jobs may be
    /// several, each with its own counts.
    async fn act(
        &self,
        filter: &JobFilter,
        action: Action,
        limit: u32,
        actor: Option<&Actor>,
    ) -> Result<Bulk, StoreError>;

    /// Priority or `run_at` of a waiting job; false when it is not waiting.
    async fn change(&self, id: JobId, change: &Change, actor: Option<&Actor>) -> Result<bool, StoreError>;

    /// Removes what retention allows, in short transactions. By an actor's hand it leaves one line, written with the last of
    /// them, unless there was nothing to remove.
    async fn prune(&self, prune: &Prune, actor: Option<&Actor>) -> Result<u64, StoreError>;

    /// Appends what workers and sweepers counted since their last call.
    async fn record(&self, rollups: &[Rollup]) -> Result<(), StoreError>;

    async fn rollups(&self, since: Time) -> Result<Vec<Rollup>, StoreError>;

    /// Lines for `doctor`: a name, a finding, and what to do where something is wrong.
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

/// What a store's bare loop reached: the yardstick of `bench queue`.
#[derive(Clone, Copy, Debug)]
pub struct BenchLimit {
    pub enqueue_per_s: f64,
    pub drain_per_s: f64,
}
