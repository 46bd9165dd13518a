//! Parameters and results of the job operations.

use std::time::Duration;

use crate::sweep::Level;
use crate::{
    Attempt, EntityRef, JobId, JobRecord, JobState, KindId, LeasedJob, LogLine, QueueId, Time, Token,
    WorkerId,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The new job, or the existing one of a duplicate.
    pub id: JobId,
    pub duplicate: bool,
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub worker: WorkerId,
    pub queue: QueueId,
    /// The kinds to lease.
    pub kinds: Vec<KindId>,
    pub limit: u32,
    /// With [`Level::Trial`] the worker promises to run nothing else meanwhile, and gets one job whatever the limit.
    pub level: Level,
}

/// What a claim for late jobs brought, the longest due first.
#[derive(Clone, Debug, Default)]
pub struct LateJobs {
    pub jobs: Vec<LeasedJob>,
    /// More late jobs were found than leased: other workers hold the slots, or the queue's global concurrency is used
    /// up.
    pub waiting: bool,
}

impl LateJobs {
    /// `found` late jobs were seen, and these of them leased.
    pub fn leased(mut jobs: Vec<LeasedJob>, found: usize) -> LateJobs {
        jobs.sort_unstable_by_key(|job| (job.run_at, job.priority, job.id));
        LateJobs { waiting: jobs.len() < found, jobs }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Accepted,
    /// It was returned, but another job with its unique key is already pending.
    Superseded,
    /// A cancel had been requested.
    Cancelled,
    /// The lease was lost; nothing changed.
    Stale,
}

/// Progress or a log line of a running attempt.
#[derive(Clone, Debug)]
pub struct Report {
    pub id: JobId,
    pub token: Token,
    pub attempt: u16,
    pub body: ReportBody,
}

#[derive(Clone, Debug)]
pub enum ReportBody {
    Progress { percent: f32, message: Option<String> },
    Log { line: String },
}

/// All given conditions must hold. Empty `states` match any state.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    pub ids: Vec<JobId>,
    pub states: Vec<JobState>,
    pub queue: Option<QueueId>,
    pub kind: Option<KindId>,
    pub entity: Option<EntityRef>,
    pub tag: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Only jobs with smaller ids.
    pub before: Option<JobId>,
    pub limit: u32,
    /// Payloads and results are cut to this many bytes, so that a page of large ones fits into memory.
    pub excerpt: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct JobDetail {
    pub job: JobRecord,
    /// Oldest first; the last one may still be running.
    pub attempts: Vec<Attempt>,
    pub logs: Vec<LogLine>,
    /// A cancel was requested and the worker has not confirmed it yet.
    pub cancel_requested: bool,
}

/// An operator's action on jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A waiting job ends at once. The worker of a running one is asked to stop it.
    Cancel,
    /// A failed, dead or cancelled job returns to its queue with fresh attempts. A scheduled one runs now.
    Retry,
    /// Removes a finished job with its attempts and logs.
    Delete,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    pub done: u64,
    /// Running jobs whose worker was asked to stop.
    pub requested: u64,
    /// Retried jobs whose unique key is held by a waiting job.
    pub superseded: u64,
    /// Matched, but in a state that does not allow the action.
    pub skipped: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    pub priority: Option<u8>,
    pub run_at: Option<Time>,
}

/// One cleanup task.
#[derive(Clone, Copy, Debug)]
pub struct Prune {
    pub what: PruneWhat,
    pub older_than: Duration,
    /// Count only.
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneWhat {
    /// Completed, cancelled and superseded jobs.
    Finished,
    /// Failed jobs and dead letters.
    DeadLetters,
    Idempotency,
    /// Expired windows of unique keys.
    Windows,
    /// Per-minute statistics.
    Rollups,
}

impl PruneWhat {
    pub fn name(self) -> &'static str {
        match self {
            PruneWhat::Finished => "finished",
            PruneWhat::DeadLetters => "dead-letters",
            PruneWhat::Idempotency => "idempotency",
            PruneWhat::Windows => "windows",
            PruneWhat::Rollups => "rollups",
        }
    }
}
