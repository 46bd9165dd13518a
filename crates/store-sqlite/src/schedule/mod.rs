//! Schedules: their descriptions, their progress, and the tick.
//!
//! Owns: the schedules table. `core::schedule` decides the next tick after a change. A tick is a compare-and-set in
//! the transaction of its jobs, so any number of processes may try the same one.

mod read;
mod tick;
mod write;

use async_trait::async_trait;
use windlass_core::audit::Actor;
use windlass_core::schedule::ScheduleSpec;
use windlass_core::store::{DueSchedules, SchedulePut, ScheduleRecord, ScheduleStore, Tick};
use windlass_core::{StoreError, Time};

use crate::SqliteStore;

pub(crate) use read::next_tick;

#[async_trait]
impl ScheduleStore for SqliteStore {
    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<ScheduleRecord>, StoreError> {
        let after = after.unwrap_or("").to_owned();
        self.read("list schedules", move |connection| read::list(connection, &after, limit)).await
    }

    async fn schedule(&self, name: &str) -> Result<Option<ScheduleRecord>, StoreError> {
        let name = name.to_owned();
        self.read("read a schedule", move |connection| read::one(connection, &name)).await
    }

    async fn put_schedule(
        &self,
        spec: &ScheduleSpec,
        actor: Option<&Actor>,
    ) -> Result<SchedulePut, StoreError> {
        let (spec, actor) = (spec.clone(), actor.cloned());
        self.write("write a schedule", 1, move |scope| write::put(scope, &spec, actor.as_ref())).await
    }

    async fn delete_schedule(&self, name: &str, actor: Option<&Actor>) -> Result<bool, StoreError> {
        let (name, actor) = (name.to_owned(), actor.cloned());
        self.write("delete a schedule", 1, move |scope| write::delete(scope, &name, actor.as_ref())).await
    }

    async fn pause_schedule(
        &self,
        name: &str,
        paused: bool,
        actor: Option<&Actor>,
    ) -> Result<Option<ScheduleRecord>, StoreError> {
        let (name, actor) = (name.to_owned(), actor.cloned());
        self.write("pause a schedule", 1, move |scope| write::pause(scope, &name, paused, actor.as_ref()))
            .await
    }

    async fn due_schedules(&self, now: Time, limit: u32) -> Result<DueSchedules, StoreError> {
        self.read("find due schedules", move |connection| read::due(connection, now, limit)).await
    }

    async fn tick(&self, ticks: &[Tick]) -> Result<Vec<bool>, StoreError> {
        let rows = ticks.iter().map(|tick| 1 + tick.jobs.len()).sum();
        let ticks = ticks.to_vec();
        self.write("tick", rows, move |scope| tick::tick(scope, &ticks)).await
    }
}
