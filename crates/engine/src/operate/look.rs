//! Reads, as the store answers them.

use windlass_core::store::{
    AuditFilter, AuditRecord, BackupNote, DEAD_SHOWN, DeadCount, JobDetail, JobFilter, LiveOverride, Page,
    QueueState, Rollup, ScheduleRecord, WorkerRow, WorkflowDetail, WorkflowFilter, WorkflowRecord,
};
use windlass_core::{JobId, JobRecord, KindSpec, StoreError, Time, WorkflowId};

use crate::Client;

impl Client {
    /// `sqlite` or `postgres`.
    pub fn store_name(&self) -> &'static str {
        self.store().name()
    }

    /// The database's clock.
    pub async fn now(&self) -> Result<Time, StoreError> {
        self.store().now().await
    }

    /// Fails when the database does not answer or has another schema than this binary needs.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.store().check_schema().await
    }

    pub async fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError> {
        self.store().job(id).await
    }

    /// The workflow that a job belongs to.
    pub async fn workflow_of(&self, detail: &JobDetail) -> Result<Option<WorkflowDetail>, StoreError> {
        match detail.job.workflow {
            Some(id) => self.store().workflow(id).await,
            None => Ok(None),
        }
    }

    /// An exact count.
    pub async fn count_jobs(&self, filter: &JobFilter) -> Result<u64, StoreError> {
        self.store().count(filter).await
    }

    /// Backups of this database, newest first.
    pub async fn backups(&self, limit: u32) -> Result<Vec<BackupNote>, StoreError> {
        self.store().backups(limit).await
    }

    /// Values that an operator set live, in place of configured ones.
    pub async fn live_overrides(&self) -> Result<Vec<LiveOverride>, StoreError> {
        self.store().live_overrides().await
    }

    /// Statistics per minute since then.
    pub async fn rollups(&self, since: Time) -> Result<Vec<Rollup>, StoreError> {
        self.store().rollups(since).await
    }

    /// Newest first.
    pub async fn jobs(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobRecord>, StoreError> {
        self.store().list(filter, page).await
    }

    /// Failed jobs and dead letters of each queue that has some, counted among the newest of all.
    pub async fn dead_letters(&self) -> Result<Vec<DeadCount>, StoreError> {
        self.store().dead_letters(DEAD_SHOWN).await
    }

    pub async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowDetail>, StoreError> {
        self.store().workflow(id).await
    }

    /// Newest first.
    pub async fn workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRecord>, StoreError> {
        self.store().workflows(filter).await
    }

    /// By name.
    pub async fn schedules(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        self.store().schedules(after, limit).await
    }

    pub async fn schedule(&self, name: &str) -> Result<Option<ScheduleRecord>, StoreError> {
        self.store().schedule(name).await
    }

    /// Most urgent first.
    pub async fn queues(&self) -> Result<Vec<QueueState>, StoreError> {
        let mut queues = self.store().queues().await?;
        queues.sort_by_key(|queue| (queue.spec.priority, queue.id));
        Ok(queues)
    }

    /// By name.
    pub async fn kinds(&self) -> Result<Vec<KindSpec>, StoreError> {
        let mut kinds: Vec<KindSpec> =
            self.store().kinds().await?.into_iter().map(|(_, _, kind)| kind).collect();
        kinds.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(kinds)
    }

    pub async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.store().workers().await
    }

    /// Audit lines, newest first.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.store().audit(filter).await
    }
}
