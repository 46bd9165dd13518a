//! What a caller does with schedules: put, pause, run now, delete. A call of the application itself has no actor and
//! leaves no audit line.

use windlass_core::audit::{Actor, NewAudit};
use windlass_core::schedule::{ScheduleSpec, check_free};
use windlass_core::store::{Enqueued, SchedulePut, ScheduleRecord};
use windlass_core::{Invalid, StoreError};

use super::plans::request;
use crate::{Client, EngineError, EnqueueError};

impl Client {
    /// Adds or replaces a schedule; a replaced one keeps its last tick. Everything is checked before anything is
    /// written. Names that begin with `windlass-` are refused.
    pub async fn put_schedule(
        &self,
        spec: &ScheduleSpec,
        actor: Option<&Actor>,
    ) -> Result<SchedulePut, EngineError> {
        let invalid = check_free(&spec.name).err().unwrap_or_default();
        invalid.and(self.check_schedule(spec).await?).into_result()?;
        Ok(self.store().put_schedule(spec, actor).await?)
    }

    /// The same for a schedule of windlass' own.
    pub async fn put_own_schedule(&self, spec: &ScheduleSpec) -> Result<SchedulePut, EngineError> {
        self.check_schedule(spec).await?.into_result()?;
        Ok(self.store().put_schedule(spec, None).await?)
    }

    /// Every rule that a description breaks.
    pub async fn check_schedule(&self, spec: &ScheduleSpec) -> Result<Invalid, StoreError> {
        let now = self.store().now().await?;
        let invalid = spec.plan(now).err().unwrap_or_default();
        let catalog = self.catalog_for([spec.kind.as_str()].into_iter()).await?;
        let unknown = match catalog.kind_named(&spec.kind) {
            Some(_) => Invalid::default(),
            None => Invalid::one("kind", catalog.unknown_kind(&spec.kind)),
        };
        Ok(invalid.and(unknown))
    }

    /// False when there is no such schedule.
    pub async fn delete_schedule(&self, name: &str, actor: Option<&Actor>) -> Result<bool, StoreError> {
        self.store().delete_schedule(name, actor).await
    }

    /// A paused schedule does not tick. `None` when there is no such schedule.
    pub async fn pause_schedule(
        &self,
        name: &str,
        paused: bool,
        actor: Option<&Actor>,
    ) -> Result<Option<ScheduleRecord>, StoreError> {
        self.store().pause_schedule(name, paused, actor).await
    }

    /// Enqueues one job of the schedule now, tagged as requested by hand. Its ticks are not affected. `None` when there
    /// is no such schedule.
    pub async fn run_schedule(
        &self,
        name: &str,
        actor: Option<&Actor>,
    ) -> Result<Option<Enqueued>, EnqueueError> {
        let Some(record) = self.store().schedule(name).await? else { return Ok(None) };
        let spec = record.spec()?;
        let mut job = request(&spec, record.payload);
        job.tags = spec.job_tags(None);
        let Some(actor) = actor else { return self.enqueue(job).await.map(Some) };
        // The job and its audit line are one commit.
        let jobs = self.resolve(vec![job]).await?;
        let mut tx = self.store().begin().await?;
        let enqueued = self.watched(self.store().enqueue_in(tx.tx(), &jobs).await)?.pop();
        if let Some(note) =
            enqueued.filter(|job| !job.duplicate).and_then(|job| NewAudit::schedule_run(name, job.id))
        {
            self.store().note_in(tx.tx(), actor, &note).await?;
        }
        tx.commit().await?;
        Ok(enqueued)
    }
}
