//! The [`Store`] contract, verb by verb, each in the module that owns it.
//!
//! The work of a verb has the verb's name: `self.verb` finds the method of [`PostgresStore`] itself, because Rust looks
//! among a type's own methods before a trait's.

use std::time::Duration;

use async_trait::async_trait;
use windlass_core::audit::Actor;
use windlass_core::store::{
    Action, Backlog, Beat, Boosted, Bulk, Change, Claim, DeadCount, Enqueued, Finding, JobDetail, JobFilter,
    KindUpdate, LateJobs, Migration, OnWake, Overruled, Page, Poll, Prune, QueueKinds, QueueState,
    QueueUpdate, Reclaimed, Report, Rollup, Settled, Sql, StoreTx, TokenLease, WorkerInfo, WorkerLimits,
    WorkerRow,
};
use windlass_core::{
    JobId, JobRecord, KindId, KindSpec, LaneId, LeasedJob, NewJob, QueueId, QueueSpec, Settlement, Store,
    StoreError, Time, Token, TxRef, WorkerId,
};

use crate::PostgresStore;

type Result<T> = std::result::Result<T, StoreError>;

#[async_trait]
impl Store for PostgresStore {
    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn now(&self) -> Result<Time> {
        self.now().await
    }

    fn set_clock_offset(&self, micros: i64) {
        self.set_clock_offset(micros);
    }

    fn on_wake(&self, wake: OnWake) {
        self.waker.wakers.add(wake);
    }

    async fn close(&self) {
        self.waker.stop(&self.pool).await;
        self.callers.close().await;
        self.pool.close().await;
    }

    async fn migrations(&self) -> Result<Vec<Migration>> {
        self.migrations().await
    }

    async fn migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>> {
        self.migrate_up(to).await
    }

    async fn migrate_down(&self, to: i64) -> Result<Vec<i64>> {
        self.migrate_down(to).await
    }

    async fn check_schema(&self) -> Result<()> {
        self.check_schema().await
    }

    async fn sync_registry(
        &self,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
        actor: Option<&Actor>,
    ) -> Result<()> {
        self.sync_registry(queues, kinds, actor).await
    }

    async fn kinds(&self) -> Result<Vec<(KindId, QueueId, KindSpec)>> {
        self.kinds().await
    }

    async fn queues(&self) -> Result<Vec<QueueState>> {
        self.queues().await
    }

    async fn update_queue(&self, queue: QueueId, update: &QueueUpdate) -> Result<bool> {
        self.update_queue(queue, update).await
    }

    async fn update_kind(&self, kind: KindId, update: &KindUpdate) -> Result<bool> {
        self.update_kind(kind, update).await
    }

    async fn overruled(&self) -> Result<Vec<Overruled>> {
        self.overruled().await
    }

    async fn backlog(&self, queue: QueueId, cap: u64) -> Result<Backlog> {
        self.backlog(queue, cap).await
    }

    async fn depth(&self, queue: QueueId, cap: u64) -> Result<u64> {
        self.depth(queue, cap).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.enqueue(jobs).await
    }

    async fn enqueue_in(&self, tx: TxRef<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.enqueue_in(tx, jobs).await
    }

    async fn begin(&self) -> Result<Box<dyn StoreTx>> {
        self.begin().await
    }

    fn sql_in<'a>(&'a self, tx: TxRef<'a>) -> Result<Box<dyn Sql + 'a>> {
        self.sql_in(tx)
    }

    async fn read(&self) -> Result<Box<dyn Sql>> {
        Ok(self.read_sql())
    }

    async fn claim(&self, claim: &Claim) -> Result<Vec<LeasedJob>> {
        self.claim(claim).await
    }

    async fn boost_lines(&self, after: Option<LaneId>) -> Result<Boosted> {
        self.boost_lines(after).await
    }

    async fn claim_late(&self, claim: &Claim, after: Duration) -> Result<LateJobs> {
        self.claim_late(claim, after).await
    }

    async fn lease_tokens(&self, kind: KindId, wanted: u32, unspent: u32) -> Result<TokenLease> {
        self.lease_tokens(kind, wanted, unspent).await
    }

    async fn in_company(&self, token: Token) -> Result<bool> {
        self.in_company(token).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        self.settle(settlements).await
    }

    async fn settle_in(&self, tx: TxRef<'_>, settlement: &Settlement) -> Result<Settled> {
        self.settle_in(tx, settlement).await
    }

    async fn report(&self, reports: &[Report]) -> Result<u64> {
        self.report(reports).await
    }

    async fn poll(&self, worker: WorkerId, served: &[QueueKinds]) -> Result<Poll> {
        self.poll(worker, served).await
    }

    async fn register_worker(&self, info: &WorkerInfo) -> Result<WorkerId> {
        self.register_worker(info).await
    }

    async fn heartbeat(&self, worker: WorkerId) -> Result<bool> {
        self.heartbeat(worker).await
    }

    async fn disown(&self, worker: WorkerId, known: &[Token]) -> Result<u64> {
        self.disown(worker, known).await
    }

    async fn retire_worker(&self, worker: WorkerId) -> Result<()> {
        self.retire_worker(worker).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>> {
        self.workers().await
    }

    async fn report_limits(&self, worker: WorkerId, limits: &WorkerLimits) -> Result<bool> {
        self.report_limits(worker, limits).await
    }

    fn proves_deaths(&self) -> bool {
        false
    }

    async fn beats(&self) -> Result<Vec<Beat>> {
        self.beats().await
    }

    async fn reclaim(&self, beat: &Beat) -> Result<Option<Reclaimed>> {
        self.reclaim(beat).await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>> {
        self.job(id).await
    }

    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobRecord>> {
        self.list(filter, page).await
    }

    async fn count(&self, filter: &JobFilter) -> Result<u64> {
        self.count(filter).await
    }

    async fn dead_letters(&self, cap: u64) -> Result<Vec<DeadCount>> {
        self.dead_letters(cap).await
    }

    async fn act(
        &self,
        filter: &JobFilter,
        action: Action,
        limit: u32,
        actor: Option<&Actor>,
    ) -> Result<Bulk> {
        self.act(filter, action, limit, actor).await
    }

    async fn change(&self, id: JobId, change: &Change, actor: Option<&Actor>) -> Result<bool> {
        self.change(id, change, actor).await
    }

    async fn prune(&self, prune: &Prune, actor: Option<&Actor>) -> Result<u64> {
        self.prune(prune, actor).await
    }

    async fn record(&self, rollups: &[Rollup]) -> Result<()> {
        self.record(rollups).await
    }

    async fn rollups(&self, since: Time) -> Result<Vec<Rollup>> {
        self.rollups(since).await
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        self.examine().await
    }
}
