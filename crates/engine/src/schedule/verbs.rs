//! What a caller does with schedules: describe one, run one now, take one away. Looking and pausing are the store's own verbs.

use windlass_core::Invalid;
use windlass_core::schedule::{ScheduleSpec, check_free};
use windlass_core::store::{Enqueued, SchedulePut};

use super::plans::request;
use crate::{Client, EngineError, EnqueueError};

impl Client {
    /// Adds a schedule or describes one anew, which keeps its last tick. Everything is checked before anything is written.
    /// Names that begin with `windlass-` are refused.
    pub async fn put_schedule(&self, spec: &ScheduleSpec) -> Result<SchedulePut, EngineError> {
        self.put_checked(spec, check_free(&spec.name).err().unwrap_or_default()).await
    }

    /// The same for a schedule of windlass' own.
    pub async fn put_own_schedule(&self, spec: &ScheduleSpec) -> Result<SchedulePut, EngineError> {
        self.put_checked(spec, Invalid::default()).await
    }

    async fn put_checked(
        &self,
        spec: &ScheduleSpec,
        mut invalid: Invalid,
    ) -> Result<SchedulePut, EngineError> {
        let now = self.store().now().await?;
        invalid.problems.extend(spec.plan(now).err().unwrap_or_default().problems);
        let catalog = self.catalog_for([spec.kind.as_str()].into_iter()).await?;
        let refused = invalid.problems.iter().any(|problem| problem.field == "kind");
        if catalog.kind_named(&spec.kind).is_none() && !refused {
            invalid.add("kind", catalog.unknown_kind(&spec.kind));
        }
        invalid.into_result()?;
        Ok(self.store().put_schedule(spec).await?)
    }

    /// False when there is no such schedule.
    pub async fn delete_schedule(&self, name: &str) -> Result<bool, EngineError> {
        Ok(self.store().delete_schedule(name).await?)
    }

    /// One job of the schedule now, marked as asked for; its ticks go on as if nothing had happened. `None` when there is
    /// no such schedule.
    pub async fn run_schedule(&self, name: &str) -> Result<Option<Enqueued>, EnqueueError> {
        let Some(record) = self.store().schedule(name).await? else { return Ok(None) };
        let spec = record.spec()?;
        let mut job = request(&spec, record.payload);
        job.tags = spec.job_tags(None);
        self.enqueue(job).await.map(Some)
    }
}
