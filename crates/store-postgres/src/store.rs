//! The [`Store`] contract, method by method, each implemented in the module that owns it.
//!
//! The implementation is a method of [`PostgresStore`] with the prefix `do_`, so that the two names cannot be
//! confused.

use std::time::Duration;

use async_trait::async_trait;
use windlass_core::audit::Actor;
use windlass_core::store::{
    Action, Backlog, Bulk, Change, Claim, DeadCount, Enqueued, Finding, JobDetail, JobFilter, KindUpdate,
    LateJobs, LiveOverride, Migration, OnWake, Page, Poll, Prune, QueueKinds, QueueState, QueueUpdate,
    Reclaimed, Report, Rollup, Settled, Sql, StoreTx, TokenLease, WorkerInfo, WorkerLimits, WorkerRow,
};
use windlass_core::sweep::{Death, Look};
use windlass_core::{
    JobId, JobRecord, KindId, KindSpec, LeasedJob, NewJob, QueueId, QueueSpec, Settlement, Store, StoreError,
    Time, Token, TxRef, WorkerId,
};

use crate::PostgresStore;

type Result<T> = std::result::Result<T, StoreError>;

#[async_trait]
impl Store for PostgresStore {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn now(&self) -> Result<Time> {
        self.do_now().await
    }

    fn set_clock_offset(&self, micros: i64) {
        self.do_set_clock_offset(micros);
    }

    fn on_wake(&self, wake: OnWake) {
        self.waker.wakers.add(wake);
    }

    async fn close(&self) {
        self.lock_session.stop();
        self.waker.stop(&self.pool).await;
        self.callers.close().await;
        self.pool.close().await;
    }

    async fn migrations(&self) -> Result<Vec<Migration>> {
        self.do_migrations().await
    }

    async fn migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>> {
        self.do_migrate_up(to).await
    }

    async fn migrate_down(&self, to: i64) -> Result<Vec<i64>> {
        self.do_migrate_down(to).await
    }

    async fn check_schema(&self) -> Result<()> {
        self.do_check_schema().await
    }

    async fn sync_registry(
        &self,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
        actor: Option<&Actor>,
    ) -> Result<()> {
        self.do_sync_registry(queues, kinds, actor).await
    }

    async fn kinds(&self) -> Result<Vec<(KindId, QueueId, KindSpec)>> {
        self.do_kinds().await
    }

    async fn queues(&self) -> Result<Vec<QueueState>> {
        self.do_queues().await
    }

    async fn update_queue(&self, queue: QueueId, update: &QueueUpdate) -> Result<bool> {
        self.do_update_queue(queue, update).await
    }

    async fn update_kind(&self, kind: KindId, update: &KindUpdate) -> Result<bool> {
        self.do_update_kind(kind, update).await
    }

    async fn live_overrides(&self) -> Result<Vec<LiveOverride>> {
        self.do_overruled().await
    }

    async fn backlog(&self, queue: QueueId, cap: u64) -> Result<Backlog> {
        self.do_backlog(queue, cap).await
    }

    async fn depth(&self, queue: QueueId, cap: u64) -> Result<u64> {
        self.do_depth(queue, cap).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.do_enqueue(jobs).await
    }

    async fn enqueue_in(&self, tx: TxRef<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.do_enqueue_in(tx, jobs).await
    }

    async fn begin(&self) -> Result<Box<dyn StoreTx>> {
        self.do_begin().await
    }

    fn sql_in<'a>(&'a self, tx: TxRef<'a>) -> Result<Box<dyn Sql + 'a>> {
        self.do_sql_in(tx)
    }

    async fn read(&self) -> Result<Box<dyn Sql>> {
        Ok(self.read_sql())
    }

    async fn claim(&self, claim: &Claim) -> Result<Vec<LeasedJob>> {
        self.do_claim(claim).await
    }

    async fn claim_late(&self, claim: &Claim, after: Duration) -> Result<LateJobs> {
        self.do_claim_late(claim, after).await
    }

    async fn lease_tokens(&self, kind: KindId, wanted: u32, unspent: u32) -> Result<TokenLease> {
        self.do_lease_tokens(kind, wanted, unspent).await
    }

    async fn clear_alone(&self, token: Token) -> Result<bool> {
        self.do_in_company(token).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        self.do_settle(settlements).await
    }

    async fn settle_in(&self, tx: TxRef<'_>, settlement: &Settlement) -> Result<Settled> {
        self.do_settle_in(tx, settlement).await
    }

    async fn report(&self, reports: &[Report]) -> Result<u64> {
        self.do_report(reports).await
    }

    async fn poll(&self, worker: WorkerId, served: &[QueueKinds]) -> Result<Poll> {
        self.do_poll(worker, served).await
    }

    async fn register_worker(&self, info: &WorkerInfo) -> Result<WorkerId> {
        self.do_register_worker(info).await
    }

    async fn heartbeat(&self, worker: WorkerId) -> Result<bool> {
        self.do_heartbeat(worker).await
    }

    async fn release_unknown(&self, worker: WorkerId, known: &[Token]) -> Result<u64> {
        self.do_disown(worker, known).await
    }

    async fn retire_worker(&self, worker: WorkerId) -> Result<()> {
        self.do_retire_worker(worker).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>> {
        self.do_workers().await
    }

    async fn report_limits(&self, worker: WorkerId, limits: &WorkerLimits) -> Result<bool> {
        self.do_report_limits(worker, limits).await
    }

    async fn announce_stop(&self, worker: WorkerId) -> Result<()> {
        self.do_announce_stop(worker).await
    }

    async fn look(&self) -> Result<Look> {
        self.do_look().await
    }

    async fn reclaim(&self, death: &Death) -> Result<Option<Reclaimed>> {
        self.do_reclaim(death).await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>> {
        self.do_job(id).await
    }

    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobRecord>> {
        self.do_list(filter, page).await
    }

    async fn count(&self, filter: &JobFilter) -> Result<u64> {
        self.do_count(filter).await
    }

    async fn dead_letters(&self, cap: u64) -> Result<Vec<DeadCount>> {
        self.do_dead_letters(cap).await
    }

    async fn act(
        &self,
        filter: &JobFilter,
        action: Action,
        limit: u32,
        actor: Option<&Actor>,
    ) -> Result<Bulk> {
        self.do_act(filter, action, limit, actor).await
    }

    async fn change(&self, id: JobId, change: &Change, actor: Option<&Actor>) -> Result<bool> {
        self.do_change(id, change, actor).await
    }

    async fn prune(&self, prune: &Prune, actor: Option<&Actor>) -> Result<u64> {
        self.do_prune(prune, actor).await
    }

    async fn record(&self, rollups: &[Rollup]) -> Result<()> {
        self.do_record(rollups).await
    }

    async fn rollups(&self, since: Time) -> Result<Vec<Rollup>> {
        self.do_rollups(since).await
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        self.do_examine().await
    }
}
