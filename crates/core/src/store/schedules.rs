//! The schedule part of the store contract.

use async_trait::async_trait;

use crate::audit::Actor;
use crate::schedule::ScheduleSpec;
use crate::{NewJob, StoreError, Time};

#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// By name, in byte order.
    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<ScheduleRecord>, StoreError>;

    async fn schedule(&self, name: &str) -> Result<Option<ScheduleRecord>, StoreError>;

    /// Creates or replaces a schedule. [`ScheduleSpec::position`] computes its next tick under the row's lock. The
    /// pause flag and the missed ticks are kept. An unchanged specification writes nothing. The caller has validated
    /// it.
    async fn put_schedule(
        &self,
        spec: &ScheduleSpec,
        actor: Option<&Actor>,
    ) -> Result<SchedulePut, StoreError>;

    /// False if there is no such schedule. Its jobs stay.
    async fn delete_schedule(&self, name: &str, actor: Option<&Actor>) -> Result<bool, StoreError>;

    /// A paused schedule is never due. After it is resumed, the ticks during the pause count as missed.
    async fn pause_schedule(
        &self,
        name: &str,
        paused: bool,
        actor: Option<&Actor>,
    ) -> Result<Option<ScheduleRecord>, StoreError>;

    /// Schedules due at `now`, longest due first.
    async fn due_schedules(&self, now: Time, limit: u32) -> Result<DueSchedules, StoreError>;

    /// Advances schedules and enqueues the jobs of their ticks, all in one transaction. The result is false for a
    /// schedule that changed since it was read or that another process is advancing; it stays as it is. A schedule
    /// occurs in `ticks` at most once.
    async fn tick(&self, ticks: &[Tick]) -> Result<Vec<bool>, StoreError>;
}

/// A stored schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    pub name: String,
    /// [`ScheduleSpec::to_kept`].
    pub kept: String,
    pub payload: Vec<u8>,
    /// Grows with each change except a tick.
    pub revision: i64,
    pub paused: bool,
    /// The latest tick processed, or the creation time before the first one.
    pub last_tick: Time,
    /// `None` if it never ticks again.
    pub next_at: Option<Time>,
    /// Ticks without a job, because of the policy or because there were too many.
    pub missed: u64,
    pub created_at: Time,
    pub updated_at: Time,
}

impl ScheduleRecord {
    /// Fails if a newer binary wrote it.
    pub fn spec(&self) -> Result<ScheduleSpec, StoreError> {
        ScheduleSpec::from_kept(&self.name, &self.kept, &self.payload)
    }

    /// The latest tick, if any.
    pub fn ticked(&self) -> Option<Time> {
        (self.last_tick > self.created_at).then_some(self.last_tick)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePut {
    pub record: ScheduleRecord,
    pub what: Put,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Created,
    Changed,
    /// Nothing changed.
    Same,
}

#[derive(Clone, Debug, Default)]
pub struct DueSchedules {
    pub due: Vec<ScheduleRecord>,
    /// When the first schedule that is not due yet will be.
    pub next_at: Option<Time>,
}

/// The update of one schedule.
#[derive(Clone, Debug)]
pub struct Tick {
    pub name: String,
    /// As read; the update applies only if it still matches.
    pub revision: i64,
    /// The last tick as read.
    pub from: Time,
    /// The new last tick.
    pub last_tick: Time,
    pub next_at: Option<Time>,
    /// Added to the missed ticks so far.
    pub missed: u64,
    pub jobs: Vec<NewJob>,
}
