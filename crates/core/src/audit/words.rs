//! Names of audited actions. They are stored and used in filters: add names, never rename one.

pub const QUEUE_CHANGE: &str = "queue.change";
pub const KIND_CHANGE: &str = "kind.change";
pub const KIND_REGISTER: &str = "kind.register";
pub const BUDGET_CHANGE: &str = "budget.change";
pub const JOB_RETRY: &str = "job.retry";
pub const JOB_CANCEL: &str = "job.cancel";
pub const JOB_DELETE: &str = "job.delete";
pub const JOB_CHANGE: &str = "job.change";
/// Actions on all jobs that match a filter.
pub const JOBS_RETRY: &str = "jobs.retry";
pub const JOBS_CANCEL: &str = "jobs.cancel";
pub const JOBS_DELETE: &str = "jobs.delete";
pub const DEAD_LETTER_REPLAY: &str = "dead_letter.replay";
pub const DEAD_LETTER_DELETE: &str = "dead_letter.delete";
pub const WORKFLOW_CANCEL: &str = "workflow.cancel";
pub const WORKFLOW_RETRY: &str = "workflow.retry";
pub const SCHEDULE_PUT: &str = "schedule.put";
pub const SCHEDULE_DELETE: &str = "schedule.delete";
pub const SCHEDULE_PAUSE: &str = "schedule.pause";
pub const SCHEDULE_RESUME: &str = "schedule.resume";
pub const SCHEDULE_RUN: &str = "schedule.run";
pub const TYPE_PUT: &str = "type.put";
pub const CLEANUP_RUN: &str = "cleanup.run";
