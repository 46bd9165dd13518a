//! A job, and a job with its attempts and logs.

use serde_json::value::RawValue;
use windlass_core::store::{JobDetail, WorkflowDetail};
use windlass_core::{JobId, JobRecord, Progress, UniqueUntil};

use super::{Id, Stamp, State, WorkflowDetailView};
use crate::shape;

shape! {
    /// A durable unit of work.
    pub struct JobView as "Job" {
        pub id: Id,
        pub kind: String,
        pub queue: String,
        pub state: State,
        /// 0 is most urgent, 10 least.
        pub priority: u8,
        /// Any JSON, byte for byte as enqueued. In lists, text with the beginning of it if it is larger than 4 KiB.
        pub payload: Option<Box<RawValue>>,
        /// The payload is only shown in part; `GET /v1/jobs/{id}` shows it whole.
        pub payload_truncated: bool,
        /// The size of the whole payload.
        pub payload_bytes: u64,
        /// Runs so far, including the current one.
        pub attempt: u16,
        /// All runs, including the first.
        pub max_attempts: u16,
        /// When it is due; null once it runs or has finished.
        pub run_at: Option<Stamp>,
        pub created_at: Stamp,
        pub started_at: Option<Stamp>,
        pub finished_at: Option<Stamp>,
        pub progress: Option<ProgressView>,
        /// The result from the handler. In lists, text with the beginning of it if it is larger than 4 KiB.
        pub result: Option<Box<RawValue>>,
        /// The result is only shown in part; `GET /v1/jobs/{id}` shows it whole.
        pub result_truncated: bool,
        /// The size of the whole result; 0 if there is none.
        pub result_bytes: u64,
        pub last_error: Option<String>,
        pub unique_key: Option<String>,
        /// How long it keeps the key: started or finished.
        pub unique_until: Option<&'static str>,
        pub concurrency_key: Option<String>,
        pub tags: Vec<String>,
        pub entity: Option<EntityView>,
        pub workflow: Option<Id>,
        /// How far the deaths of its workers speak against a waiting job, from 0; at 6 it is a dead letter.
        pub suspicion: u8,
        /// What a job that was lost with its worker waits for.
        pub waits_for: Option<&'static str>,
    }
}

shape! {
    /// Progress as reported by the handler.
    pub struct ProgressView as "Progress" {
        pub percent: f32,
        pub message: Option<String>,
        pub at: Stamp,
    }
}

shape! {
    /// The application data that a job is about.
    pub struct EntityView as "EntityRef" {
        pub r#type: String,
        pub id: String,
    }
}

impl From<&Progress> for ProgressView {
    fn from(progress: &Progress) -> ProgressView {
        let message = progress.message.clone();
        ProgressView { percent: progress.percent, message, at: Stamp(progress.at) }
    }
}

impl From<&JobRecord> for JobView {
    fn from(job: &JobRecord) -> JobView {
        JobView {
            id: Id(job.id.0),
            kind: job.kind.clone(),
            queue: job.queue.clone(),
            state: State(job.state),
            priority: job.priority,
            payload: shown(&job.payload, job.payload_bytes),
            payload_truncated: is_cut(&job.payload, job.payload_bytes),
            payload_bytes: job.payload_bytes,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            run_at: job.run_at.map(Stamp),
            created_at: Stamp(job.created_at),
            started_at: job.started_at.map(Stamp),
            finished_at: job.finished_at.map(Stamp),
            progress: job.progress.as_ref().map(ProgressView::from),
            result: job.result.as_deref().and_then(|result| shown(result, job.result_bytes)),
            result_truncated: job.result.as_deref().is_some_and(|result| is_cut(result, job.result_bytes)),
            result_bytes: job.result_bytes,
            last_error: job.last_error.clone(),
            unique_key: job.unique_key.clone(),
            unique_until: job.unique_until.map(UniqueUntil::name),
            concurrency_key: job.concurrency_key.clone(),
            tags: job.tags.clone(),
            entity: job.entity.as_ref().map(|entity| EntityView {
                r#type: entity.entity_type.clone(),
                id: entity.entity_id.clone(),
            }),
            workflow: job.workflow.map(|workflow| Id(workflow.0)),
            suspicion: job.suspicion.level(),
            waits_for: job.suspicion.waits_for(),
        }
    }
}

fn is_cut(bytes: &[u8], whole: u64) -> bool {
    (bytes.len() as u64) < whole
}

/// The beginning of JSON is not JSON, so it is shown as text. A character that was cut in two is left out.
fn shown(bytes: &[u8], whole: u64) -> Option<Box<RawValue>> {
    if !is_cut(bytes, whole) {
        return raw(bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    serde_json::value::to_raw_value(text.trim_end_matches(char::REPLACEMENT_CHARACTER)).ok()
}

/// The stored JSON as is; bytes that are not JSON as a string.
pub fn raw(bytes: &[u8]) -> Option<Box<RawValue>> {
    let text = String::from_utf8_lossy(bytes);
    RawValue::from_string(text.clone().into_owned()).or_else(|_| serde_json::value::to_raw_value(&text)).ok()
}

shape! {
    /// A job as returned by `POST /v1/jobs`.
    pub struct EnqueuedView as "EnqueuedJob" {
        #[serde(flatten)]
        pub job: JobView,
        /// The job existed already.
        pub duplicate: bool,
    }
}

shape! {
    /// A job with its attempts and logs.
    pub struct DetailView as "JobDetail" {
        #[serde(flatten)]
        pub job: JobView,
        /// A cancel was requested and the worker has not confirmed it yet.
        pub cancel_requested: bool,
        /// Oldest first.
        pub attempts: Vec<AttemptView>,
        pub logs: Vec<LogView>,
        /// Jobs of its workflow that must end before it starts.
        pub waiting_on: Vec<Id>,
        /// Its workflow, with all jobs and their dependencies.
        pub graph: Option<WorkflowDetailView>,
    }
}

shape! {
    /// One run of a job.
    pub struct AttemptView as "Attempt" {
        pub attempt: u16,
        pub worker: Option<Id>,
        pub started_at: Stamp,
        /// null while it is running.
        pub ended_at: Option<Stamp>,
        /// completed, retry, snooze, handed_back, lost, failed, dead_letter, cancelled, superseded or running.
        pub outcome: String,
        pub error: Option<String>,
    }
}

shape! {
    /// A log line written by a handler.
    pub struct LogView as "LogLine" {
        pub attempt: u16,
        pub at: Stamp,
        pub line: String,
    }
}

impl DetailView {
    /// `workflow` is the one it belongs to.
    pub fn new(detail: &JobDetail, workflow: Option<&WorkflowDetail>) -> DetailView {
        let attempts = detail.attempts.iter().map(|attempt| AttemptView {
            attempt: attempt.attempt,
            worker: attempt.worker.map(|worker| Id(worker.0)),
            started_at: Stamp(attempt.started_at),
            ended_at: attempt.ended_at.map(Stamp),
            outcome: attempt.outcome.clone(),
            error: attempt.error.clone(),
        });
        let logs = detail.logs.iter().map(|log| LogView {
            attempt: log.attempt,
            at: Stamp(log.at),
            line: log.line.clone(),
        });
        DetailView {
            job: JobView::from(&detail.job),
            cancel_requested: detail.cancel_requested,
            attempts: attempts.collect(),
            logs: logs.collect(),
            waiting_on: workflow.map_or_else(Vec::new, |w| waiting_on(detail.job.id, w)),
            graph: workflow.map(WorkflowDetailView::from),
        }
    }
}

fn waiting_on(job: JobId, workflow: &WorkflowDetail) -> Vec<Id> {
    let members = &workflow.members;
    let Some(own) = members.iter().find(|member| member.job == job && member.waits) else {
        return Vec::new();
    };
    let parents = own.parents.iter().filter_map(|place| members.get(*place));
    parents.filter(|parent| !parent.state.is_finished()).map(|parent| Id(parent.job.0)).collect()
}
