//! What a caller does with schedules: describe one, run one now. Looking, pausing and deleting are the store's own verbs.

use windlass_core::schedule::ScheduleSpec;
use windlass_core::store::{Enqueued, SchedulePut};

use super::plans::request;
use crate::{Client, EngineError, EnqueueError};

impl Client {
    /// Adds a schedule or describes one anew, which keeps its last tick. Everything is checked before anything is written.
    pub async fn put_schedule(&self, spec: &ScheduleSpec) -> Result<SchedulePut, EngineError> {
        let now = self.store().now().await?;
        let mut invalid = spec.plan(now).err().unwrap_or_default();
        let catalog = self.catalog_for([spec.kind.as_str()].into_iter()).await?;
        let refused = invalid.problems.iter().any(|problem| problem.field == "kind");
        if catalog.kind_named(&spec.kind).is_none() && !refused {
            invalid.add("kind", catalog.unknown_kind(&spec.kind));
        }
        invalid.into_result()?;
        Ok(self.store().put_schedule(spec).await?)
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
