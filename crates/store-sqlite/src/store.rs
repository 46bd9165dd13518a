//! The contract, method by method: each hands its work to the writer, a reader or the caller's transaction.
//!
//! The function that does the work has the name of the method. Where it is an inherent method of [`SqliteStore`],
//! `self.method` calls that one: Rust prefers inherent methods over those of a trait.

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

use crate::query::Selection;
use crate::{
    SqliteStore, act, claim, enqueue, error, examine, late, limit, migrate, poll, query, rate, reclaim,
    registry, report, resource, rollup, settle, worker,
};

#[async_trait]
impl Store for SqliteStore {
    fn name(&self) -> &'static str {
        error::STORE
    }

    async fn now(&self) -> Result<Time, StoreError> {
        self.shared.check_open("read the clock")?;
        Ok(self.now_here())
    }

    fn set_clock_offset(&self, micros: i64) {
        self.shared.clock.set_offset(micros);
    }

    fn on_wake(&self, wake: OnWake) {
        self.shared.wakers.add(wake);
    }

    async fn close(&self) {
        self.close().await;
    }

    // Schema ---------------------------------------------------------------------------------------------------

    async fn migrations(&self) -> Result<Vec<Migration>, StoreError> {
        self.migrations().await
    }

    async fn migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>, StoreError> {
        self.migrate_up(to).await
    }

    async fn migrate_down(&self, to: i64) -> Result<Vec<i64>, StoreError> {
        self.migrate_down(to).await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.read("check the schema", migrate::check_schema).await
    }

    // Registry -------------------------------------------------------------------------------------------------

    async fn sync_registry(
        &self,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
        actor: Option<&Actor>,
    ) -> Result<(), StoreError> {
        let (queues, kinds, actor) = (queues.to_vec(), kinds.to_vec(), actor.cloned());
        let rows = queues.len() + kinds.len();
        self.write("register queues and kinds", rows, move |scope| {
            registry::sync_registry(scope, &queues, &kinds, actor.as_ref())
        })
        .await
    }

    async fn kinds(&self) -> Result<Vec<(KindId, QueueId, KindSpec)>, StoreError> {
        self.read("list kinds", registry::kinds).await
    }

    async fn queues(&self) -> Result<Vec<QueueState>, StoreError> {
        let now = self.now_here();
        self.read("list queues", move |connection| registry::queues(connection, now)).await
    }

    async fn update_queue(&self, queue: QueueId, update: &QueueUpdate) -> Result<bool, StoreError> {
        let update = update.clone();
        self.write("update a queue", 1, move |scope| registry::update_queue(scope, queue, &update)).await
    }

    async fn update_kind(&self, kind: KindId, update: &KindUpdate) -> Result<bool, StoreError> {
        let update = update.clone();
        self.write("update a kind", 1, move |scope| registry::update_kind(scope, kind, &update)).await
    }

    async fn live_overrides(&self) -> Result<Vec<LiveOverride>, StoreError> {
        self.read("read live values", limit::live_overrides).await
    }

    async fn depth(&self, queue: QueueId, cap: u64) -> Result<u64, StoreError> {
        self.read("count waiting jobs", move |connection| registry::depth(connection, queue, cap)).await
    }

    async fn backlog(&self, queue: QueueId, cap: u64) -> Result<Backlog, StoreError> {
        let now = self.now_here();
        self.read("count due jobs", move |connection| registry::backlog(connection, queue, cap, now)).await
    }

    // Enqueue --------------------------------------------------------------------------------------------------

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
        let jobs = jobs.to_vec();
        self.write("enqueue", jobs.len(), move |scope| enqueue::enqueue(scope, &jobs)).await
    }

    async fn enqueue_in(&self, tx: TxRef<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
        self.write_in("enqueue", tx, |scope| enqueue::enqueue(scope, jobs)).await
    }

    async fn begin(&self) -> Result<Box<dyn StoreTx>, StoreError> {
        self.begin().await
    }

    // Statements -----------------------------------------------------------------------------------------------

    fn sql_in<'a>(&'a self, tx: TxRef<'a>) -> Result<Box<dyn Sql + 'a>, StoreError> {
        self.sql_in(tx)
    }

    async fn read(&self) -> Result<Box<dyn Sql>, StoreError> {
        self.read_sql()
    }

    // Work -----------------------------------------------------------------------------------------------------

    async fn claim(&self, claim: &Claim) -> Result<Vec<LeasedJob>, StoreError> {
        let claim = claim.clone();
        self.write("claim jobs", claim.limit as usize, move |scope| claim::claim(scope, &claim)).await
    }

    async fn claim_late(&self, claim: &Claim, after: Duration) -> Result<LateJobs, StoreError> {
        let claim = claim.clone();
        let size = claim.limit as usize;
        self.write("claim late jobs", size, move |scope| late::claim_late(scope, &claim, after)).await
    }

    async fn lease_tokens(&self, kind: KindId, wanted: u32, unspent: u32) -> Result<TokenLease, StoreError> {
        self.write("lease rate tokens", 1, move |scope| rate::lease_tokens(scope, kind, wanted, unspent))
            .await
    }

    async fn clear_alone(&self, token: Token) -> Result<bool, StoreError> {
        self.write("let others run beside a job on trial", 1, move |scope| claim::clear_alone(scope, token))
            .await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let settlements = settlements.to_vec();
        self.write("settle jobs", settlements.len(), move |scope| settle::settle(scope, &settlements)).await
    }

    async fn settle_in(&self, tx: TxRef<'_>, settlement: &Settlement) -> Result<Settled, StoreError> {
        let one = std::slice::from_ref(settlement);
        let answers = self.write_in("settle a job", tx, |scope| settle::settle(scope, one)).await?;
        Ok(answers.first().copied().unwrap_or(Settled::Stale))
    }

    async fn report(&self, reports: &[Report]) -> Result<u64, StoreError> {
        let reports = reports.to_vec();
        self.write("report progress", reports.len(), move |scope| report::report(scope, &reports)).await
    }

    async fn poll(&self, worker: WorkerId, served: &[QueueKinds]) -> Result<Poll, StoreError> {
        let (now, served) = (self.now_here(), served.to_vec());
        self.read("poll", move |connection| poll::poll(connection, worker, &served, now)).await
    }

    // Workers --------------------------------------------------------------------------------------------------

    async fn register_worker(&self, info: &WorkerInfo) -> Result<WorkerId, StoreError> {
        let (info, locks) = (info.clone(), self.shared.locks.clone());
        let registered = self
            .write("register a worker", 1, move |scope| worker::register_worker(scope, &info, &locks))
            .await;
        let (worker, lock) = registered?;
        self.shared.locks.keep(worker, lock);
        Ok(worker)
    }

    async fn heartbeat(&self, worker: WorkerId) -> Result<bool, StoreError> {
        self.write("heartbeat", 1, move |scope| worker::heartbeat(scope, worker)).await
    }

    async fn release_unknown(&self, worker: WorkerId, known: &[Token]) -> Result<u64, StoreError> {
        let known = known.to_vec();
        self.write("hand back unknown leases", 1, move |scope| {
            reclaim::release_unknown(scope, worker, &known)
        })
        .await
    }

    async fn retire_worker(&self, worker: WorkerId) -> Result<(), StoreError> {
        self.write("retire a worker", 1, move |scope| reclaim::retire_worker(scope, worker)).await?;
        self.shared.locks.release(worker);
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.read("list workers", worker::workers).await
    }

    async fn report_limits(&self, worker: WorkerId, limits: &WorkerLimits) -> Result<bool, StoreError> {
        let limits = limits.clone();
        self.write("report limits", 1, move |scope| resource::report_limits(scope, worker, &limits)).await
    }

    async fn announce_stop(&self, worker: WorkerId) -> Result<(), StoreError> {
        self.write("announce a stop", 1, move |scope| worker::announce_stop(scope, worker)).await
    }

    async fn look(&self) -> Result<Look, StoreError> {
        let (now, locks) = (self.now_here(), self.shared.locks.clone());
        self.read("read heartbeats", move |connection| worker::look(connection, now, &locks)).await
    }

    async fn reclaim(&self, death: &Death) -> Result<Option<Reclaimed>, StoreError> {
        let death = *death;
        let taken = self.write("reclaim leases", 1, move |scope| reclaim::reclaim(scope, &death)).await?;
        if taken.is_some() {
            self.shared.locks.release(death.beat.worker);
        }
        Ok(taken)
    }

    // Operate --------------------------------------------------------------------------------------------------

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError> {
        let now = self.now_here();
        self.read("show a job", move |connection| query::job(connection, id, now)).await
    }

    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobRecord>, StoreError> {
        let (filter, page, now) = (filter.clone(), *page, self.now_here());
        self.read("list jobs", move |connection| query::list(connection, &filter, &page, now)).await
    }

    async fn count(&self, filter: &JobFilter) -> Result<u64, StoreError> {
        let (filter, now) = (filter.clone(), self.now_here());
        self.read("count jobs", move |connection| Selection::new(&filter, now).count(connection)).await
    }

    async fn dead_letters(&self, cap: u64) -> Result<Vec<DeadCount>, StoreError> {
        self.read("count dead letters", move |connection| query::dead_letters(connection, cap)).await
    }

    async fn act(
        &self,
        filter: &JobFilter,
        action: Action,
        limit: u32,
        actor: Option<&Actor>,
    ) -> Result<Bulk, StoreError> {
        self.act(filter, action, limit, actor).await
    }

    async fn change(&self, id: JobId, change: &Change, actor: Option<&Actor>) -> Result<bool, StoreError> {
        let (change, actor) = (*change, actor.cloned());
        self.write("change a job", 1, move |scope| act::change(scope, id, &change, actor.as_ref())).await
    }

    async fn prune(&self, prune: &Prune, actor: Option<&Actor>) -> Result<u64, StoreError> {
        self.prune(prune, actor).await
    }

    async fn record(&self, rollups: &[Rollup]) -> Result<(), StoreError> {
        let rollups = rollups.to_vec();
        self.write("record roll-ups", rollups.len(), move |scope| rollup::record(scope, &rollups)).await
    }

    async fn rollups(&self, since: Time) -> Result<Vec<Rollup>, StoreError> {
        self.read("read roll-ups", move |connection| rollup::rollups(connection, since)).await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let settings = self.write("examine", 1, |scope| examine::settings(scope.connection)).await?;
        let path = self.shared.path.clone();
        let now = self.now_here();
        self.read("examine", move |connection| examine::examine(connection, &path, &settings, now)).await
    }
}
