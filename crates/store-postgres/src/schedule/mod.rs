//! Schedules: their descriptions, their progress, and the tick.
//!
//! Owns: the schedules table. `core::schedule` decides the next tick after a change. A tick is a compare-and-set in
//! the transaction of its jobs, so any number of processes may try the same one.

pub(crate) mod floor;
mod read;
mod tick;
mod write;

use async_trait::async_trait;
use windlass_core::audit::Actor;
use windlass_core::schedule::ScheduleSpec;
use windlass_core::store::{DueSchedules, SchedulePut, ScheduleRecord, ScheduleStore, Tick};
use windlass_core::{StoreError, Time};

use crate::PostgresStore;

type Result<T> = std::result::Result<T, StoreError>;

/// How often a transaction that lost a race is retried.
const TRIES: usize = 5;

#[async_trait]
impl ScheduleStore for PostgresStore {
    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<ScheduleRecord>> {
        self.list_schedules(after, limit).await
    }

    async fn schedule(&self, name: &str) -> Result<Option<ScheduleRecord>> {
        self.one_schedule(name).await
    }

    async fn put_schedule(&self, spec: &ScheduleSpec, actor: Option<&Actor>) -> Result<SchedulePut> {
        self.write_schedule(spec, actor).await
    }

    async fn delete_schedule(&self, name: &str, actor: Option<&Actor>) -> Result<bool> {
        self.drop_schedule(name, actor).await
    }

    async fn pause_schedule(
        &self,
        name: &str,
        paused: bool,
        actor: Option<&Actor>,
    ) -> Result<Option<ScheduleRecord>> {
        self.set_paused(name, paused, actor).await
    }

    async fn due_schedules(&self, now: Time, limit: u32) -> Result<DueSchedules> {
        self.find_due(now, limit).await
    }

    async fn tick(&self, ticks: &[Tick]) -> Result<Vec<bool>> {
        self.tick_schedules(ticks).await
    }
}
