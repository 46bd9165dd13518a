//! A job before it is stored, while it is leased, and for display.

use std::fmt;
use std::time::Duration;

use crate::lane::Lane;
use crate::sweep::Suspicion;
use crate::{
    JobId, JobState, KindId, LaneId, QueueId, Time, Token, Unique, UniqueUntil, WorkerId, WorkflowId,
};

/// A validated job. Kind and queue are resolved.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub kind: KindId,
    pub queue: QueueId,
    /// 0 (most urgent) to 10.
    pub priority: u8,
    /// Opaque to the store; the engine writes JSON.
    pub payload: Vec<u8>,
    pub run_at: RunAt,
    /// All runs, including the first.
    pub max_attempts: u16,
    pub timeout: Option<Duration>,
    pub unique: Option<Unique>,
    pub idempotency: Option<Idempotency>,
    /// Jobs of this kind with the same key share a lane.
    pub concurrency_key: Option<String>,
    pub tags: Vec<String>,
    pub entity: Option<EntityRef>,
}

impl NewJob {
    pub fn lane(&self) -> Option<LaneId> {
        self.concurrency_key.as_deref().map(|key| LaneId::of(self.kind, key))
    }

    /// Whether the store can insert it in one statement with others, because it has no key that could conflict.
    pub fn is_plain(&self) -> bool {
        self.unique.is_none() && self.idempotency.is_none()
    }
}

/// When a job may start. Relative times are added to the database clock, not the caller's. A time in the past means
/// now.
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

/// Same key and fingerprint: the first response is repeated. Same key but another fingerprint: refused. Jobs and entity
/// writes share one key space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// Hash of the whole request.
    pub fingerprint: Vec<u8>,
}

/// What an idempotency key was used for.
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

/// The application data that a job is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityRef {
    pub entity_type: String,
    pub entity_id: String,
}

/// A job leased by a worker.
#[derive(Clone, Debug)]
pub struct LeasedJob {
    pub id: JobId,
    pub token: Token,
    pub kind: KindId,
    pub queue: QueueId,
    pub priority: u8,
    pub payload: Vec<u8>,
    /// The first run is 1.
    pub attempt: u16,
    pub max_attempts: u16,
    pub timeout: Option<Duration>,
    pub run_at: Time,
    pub created_at: Time,
    /// By the database clock.
    pub claimed_at: Time,
    pub workflow: Option<WorkflowId>,
    /// The lane whose slot it holds.
    pub lane: Option<Lane>,
    /// It holds its unique key until it ends.
    pub holds_key: bool,
    pub suspicion: Suspicion,
}

/// A job for display.
#[derive(Clone, Debug)]
pub struct JobRecord {
    pub id: JobId,
    pub kind: String,
    pub queue: String,
    pub state: JobState,
    pub priority: u8,
    /// All of it, or its beginning in a page with `excerpt`.
    pub payload: Vec<u8>,
    /// The size of the whole payload.
    pub payload_bytes: u64,
    pub attempt: u16,
    pub max_attempts: u16,
    pub timeout: Option<Duration>,
    pub run_at: Option<Time>,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    pub progress: Option<Progress>,
    /// All of it, or its beginning, as for the payload.
    pub result: Option<Vec<u8>>,
    /// The size of the whole result.
    pub result_bytes: u64,
    pub last_error: Option<String>,
    pub unique_key: Option<String>,
    pub unique_until: Option<UniqueUntil>,
    pub concurrency_key: Option<String>,
    pub tags: Vec<String>,
    pub entity: Option<EntityRef>,
    /// The worker that runs it or ran it last.
    pub worker: Option<WorkerId>,
    pub workflow: Option<WorkflowId>,
    /// Of a waiting job.
    pub suspicion: Suspicion,
}

/// Progress as reported by the handler.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub percent: f32,
    pub message: Option<String>,
    pub at: Time,
}

/// One run of a job; without `ended_at` it is still running.
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

/// A log line written by a handler.
#[derive(Clone, Debug)]
pub struct LogLine {
    pub attempt: u16,
    pub at: Time,
    pub line: String,
}
