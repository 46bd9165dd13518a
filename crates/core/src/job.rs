//! A job before it is stored, while it is leased, and as it is shown.

use std::fmt;
use std::time::Duration;

use crate::lane::Lane;
use crate::{
    JobId, JobState, KindId, LaneId, QueueId, Time, Token, Unique, UniqueUntil, WorkerId, WorkflowId,
};

/// A checked job on its way into a store. Kind and queue are already resolved against the registry.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub kind: KindId,
    pub queue: QueueId,
    /// 0 (most urgent) to 10.
    pub priority: u8,
    /// Opaque to the store; the engine writes JSON.
    pub payload: Vec<u8>,
    pub run_at: RunAt,
    /// All runs, the first included.
    pub max_attempts: u16,
    pub timeout: Option<Duration>,
    pub unique: Option<Unique>,
    pub idempotency: Option<Idempotency>,
    /// Jobs of its kind with this key share a lane.
    pub concurrency_key: Option<String>,
    pub tags: Vec<String>,
    pub entity: Option<EntityRef>,
}

impl NewJob {
    pub fn lane(&self) -> Option<LaneId> {
        self.concurrency_key.as_deref().map(|key| LaneId::of(self.kind, key))
    }

    /// A plain job can be written in one statement with any others: nothing about it can be refused by the store.
    pub fn is_plain(&self) -> bool {
        self.unique.is_none() && self.idempotency.is_none()
    }
}

/// When a job may start. Relative times are added to the database's clock, not the caller's. A time in the past
/// means now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAt {
    Now,
    In(Duration),
    At(Time),
}

impl RunAt {
    pub fn from(self, now: Time) -> Time {
        match self {
            RunAt::Now => now,
            RunAt::In(delay) => now.plus(delay),
            RunAt::At(at) => at.max(now),
        }
    }
}

/// Same key and fingerprint: the first answer is given again. Same key, other fingerprint: refused. Jobs and writes of
/// entities share the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// Hash of everything the caller said.
    pub fingerprint: Vec<u8>,
}

/// What a key was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    Job(JobId),
    Entity,
}

impl fmt::Display for KeyUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyUse::Job(id) => write!(f, "job {id}"),
            KeyUse::Entity => f.write_str("a write of an entity"),
        }
    }
}

/// The application's data a job is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityRef {
    pub entity_type: String,
    pub entity_id: String,
}

/// A job in the hands of a worker.
#[derive(Clone, Debug)]
pub struct LeasedJob {
    pub id: JobId,
    pub token: Token,
    pub kind: KindId,
    pub queue: QueueId,
    pub priority: u8,
    pub payload: Vec<u8>,
    /// This run, the first is 1.
    pub attempt: u16,
    pub max_attempts: u16,
    pub timeout: Option<Duration>,
    pub run_at: Time,
    pub created_at: Time,
    /// By the database's clock.
    pub claimed_at: Time,
    /// The workflow it belongs to.
    pub workflow: Option<WorkflowId>,
    /// The lane whose slot it holds.
    pub lane: Option<Lane>,
    /// It holds its unique key until it ends.
    pub holds_key: bool,
}

/// A job as it is shown to people and programs.
#[derive(Clone, Debug)]
pub struct JobRecord {
    pub id: JobId,
    pub kind: String,
    pub queue: String,
    pub state: JobState,
    pub priority: u8,
    pub payload: Vec<u8>,
    pub attempt: u16,
    pub max_attempts: u16,
    pub timeout: Option<Duration>,
    pub run_at: Option<Time>,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    pub progress: Option<Progress>,
    pub result: Option<Vec<u8>>,
    pub last_error: Option<String>,
    pub unique_key: Option<String>,
    pub unique_until: Option<UniqueUntil>,
    pub concurrency_key: Option<String>,
    pub tags: Vec<String>,
    pub entity: Option<EntityRef>,
    /// The incarnation that runs it now or ran it last.
    pub worker: Option<WorkerId>,
    pub workflow: Option<WorkflowId>,
}

/// How far a running job says it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub percent: f32,
    pub message: Option<String>,
    pub at: Time,
}

/// One run of a job, over or (with no `ended_at`) under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub attempt: u16,
    pub token: Token,
    pub worker: Option<WorkerId>,
    pub started_at: Time,
    pub ended_at: Option<Time>,
    /// `completed`, `retry`, `snooze`, `handed_back`, `lost`, `failed`, `dead_letter`, `cancelled`, `superseded`
    /// or `running`.
    pub outcome: String,
    pub error: Option<String>,
}

/// A line a handler wrote while it ran.
#[derive(Clone, Debug)]
pub struct LogLine {
    pub attempt: u16,
    pub at: Time,
    pub line: String,
}
