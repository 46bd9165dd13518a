//! Questions and answers about jobs.

use std::time::Duration;

use crate::{
    Attempt, EntityRef, JobId, JobRecord, JobState, KindId, LeasedJob, LogLine, QueueId, Time, Token,
    WorkerId,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The new job, or the one that was there.
    pub id: JobId,
    pub duplicate: bool,
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub worker: WorkerId,
    pub queue: QueueId,
    /// Kinds this worker handles; no other is leased.
    pub kinds: Vec<KindId>,
    pub limit: u32,
    /// Lease one suspect and nothing else: the worker promises that nothing else runs in its process. Otherwise
    /// suspects are left alone.
    pub suspect: bool,
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
    /// It came back and met its pending twin.
    Superseded,
    /// A cancel was waiting for it.
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

/// All given conditions hold. `states` empty means any.
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
}

#[derive(Clone, Debug)]
pub struct JobDetail {
    pub job: JobRecord,
    /// Oldest first; the last one may be under way.
    pub attempts: Vec<Attempt>,
    pub logs: Vec<LogLine>,
    /// A cancel was asked for and the worker has not answered yet.
    pub cancel_requested: bool,
}

/// What an operator does to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Waiting: ends at once. Running: asks the worker to stop.
    Cancel,
    /// Failed, dead or cancelled: back to its queue with fresh attempts. Scheduled: runs now.
    Retry,
    /// Finished: gone with everything it left.
    Delete,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    pub done: u64,
    /// Running jobs whose worker was asked to stop.
    pub requested: u64,
    /// Replayed jobs that met a waiting twin.
    pub superseded: u64,
    /// Matched, but in a state the action does not fit.
    pub skipped: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    pub priority: Option<u8>,
    pub run_at: Option<Time>,
}

/// One clean-up task.
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
    /// Windows of unique keys that are over.
    Windows,
    /// Roll-ups of past minutes.
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
