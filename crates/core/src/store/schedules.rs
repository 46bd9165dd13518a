//! Questions and answers about schedules: the third part of the store contract.

use async_trait::async_trait;

use crate::audit::Actor;
use crate::schedule::ScheduleSpec;
use crate::{NewJob, StoreError, Time};

#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// By the bytes of the name.
    async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<ScheduleRecord>, StoreError>;

    async fn schedule(&self, name: &str) -> Result<Option<ScheduleRecord>, StoreError>;

    /// Adds a schedule or describes one anew; where it then stands is [`ScheduleSpec::stand`]'s, under the row's lock. A
    /// pause and what was missed stay. The same description again writes nothing. The specification was checked above.
    async fn put_schedule(
        &self,
        spec: &ScheduleSpec,
        actor: Option<&Actor>,
    ) -> Result<SchedulePut, StoreError>;

    /// False when there is no such schedule. Its jobs stay.
    async fn delete_schedule(&self, name: &str, actor: Option<&Actor>) -> Result<bool, StoreError>;

    /// A paused schedule is never due. Once it goes on it is late, and its ticks meanwhile are missed ones.
    async fn pause_schedule(
        &self,
        name: &str,
        paused: bool,
        actor: Option<&Actor>,
    ) -> Result<Option<ScheduleRecord>, StoreError>;

    /// Those due at `now`, the one due longest first, at most `limit`.
    async fn due_schedules(&self, now: Time, limit: u32) -> Result<DueSchedules, StoreError>;

    /// Moves schedules on and enqueues the jobs of their ticks, all in one transaction. A schedule that is no longer as it
    /// was read, or that somebody else is moving at this moment, stays as it is and enqueues nothing: false. Each
    /// schedule is in `ticks` once.
    async fn tick(&self, ticks: &[Tick]) -> Result<Vec<bool>, StoreError>;
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    pub name: String,
    /// [`ScheduleSpec::to_kept`].
    pub kept: String,
    pub payload: Vec<u8>,
    /// Grows with each change but a tick.
    pub revision: i64,
    pub paused: bool,
    /// The latest tick that was dealt with; the time of its making while there was none.
    pub last_tick: Time,
    /// `None`: it never ticks again.
    pub next_at: Option<Time>,
    /// Ticks that passed without a job, by the policy or because there were too many.
    pub missed: u64,
    pub created_at: Time,
    pub updated_at: Time,
}

impl ScheduleRecord {
    /// Fails for one that a newer binary wrote.
    pub fn spec(&self) -> Result<ScheduleSpec, StoreError> {
        ScheduleSpec::from_kept(&self.name, &self.kept, &self.payload)
    }

    /// The latest tick, if there was one yet.
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
    /// It was described like this already.
    Same,
}

#[derive(Clone, Debug, Default)]
pub struct DueSchedules {
    pub due: Vec<ScheduleRecord>,
    /// When the next one after those that are due will be.
    pub next_at: Option<Time>,
}

/// What becomes of one schedule.
#[derive(Clone, Debug)]
pub struct Tick {
    pub name: String,
    /// As it was read.
    pub revision: i64,
    /// The last tick as it was read.
    pub from: Time,
    /// The last tick from now on.
    pub last_tick: Time,
    pub next_at: Option<Time>,
    /// To be added to those missed so far.
    pub missed: u64,
    pub jobs: Vec<NewJob>,
}
