//! A line before it is written: what was done, to what, and what differs since.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::differences;
use super::jobs::add_counts;
use super::words::{
    CLEANUP_RUN, JOB_CHANGE, KIND_CHANGE, KIND_REGISTER, QUEUE_CHANGE, SCHEDULE_DELETE, SCHEDULE_PAUSE,
    SCHEDULE_PUT, SCHEDULE_RESUME, SCHEDULE_RUN, TYPE_PUT, WORKFLOW_CANCEL, WORKFLOW_RETRY,
};
use crate::limit::{LayerChange, LimitValue, Limited, Of};
use crate::store::{Bulk, Prune, ScheduleRecord};
use crate::workflow::WorkflowState;
use crate::{JobId, KindSpec, TypeSpec, WorkflowId};

/// What is to be said of one act; who did it and when is said beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub act: &'static str,
    pub subject: String,
    /// `{"field": {"from", "to"}}`; one side alone where there is no other.
    pub detail: Map<String, Json>,
}

impl Note {
    /// Nothing when nothing differs: an act that changes nothing leaves no line.
    pub fn about(act: &'static str, subject: String, detail: Map<String, Json>) -> Option<Note> {
        (!detail.is_empty()).then_some(Note { act, subject, detail })
    }

    /// A waiting job's priority or time.
    pub fn job_changed(id: JobId, before: &Map<String, Json>, after: &Map<String, Json>) -> Option<Note> {
        Note::about(JOB_CHANGE, format!("job/{id}"), differences(before, after))
    }

    pub fn kind_registered(kind: &KindSpec) -> Option<Note> {
        let mut described = object(json!({ "queue": kind.queue, "max_attempts": kind.max_attempts }));
        for limit in Of::Kind.limits() {
            described.insert(limit.audit_name(), json!(kind.limit(limit.name).map(LimitValue::told)));
        }
        let detail = differences(&Map::new(), &described);
        Note::about(KIND_REGISTER, format!("kind/{}", kind.name), detail)
    }

    /// Paused before and after, and the layers of the queue and of its resource.
    pub fn queue_changed(name: &str, [from, to]: [bool; 2], moved: &[LayerChange]) -> Option<Note> {
        let mut detail = LayerChange::differences(moved);
        if from != to {
            detail.insert("paused".to_owned(), json!({ "from": from, "to": to }));
        }
        Note::about(QUEUE_CHANGE, format!("queue/{name}"), detail)
    }

    /// The layers of the kind and of its resource.
    pub fn kind_changed(name: &str, moved: &[LayerChange]) -> Option<Note> {
        Note::about(KIND_CHANGE, format!("kind/{name}"), LayerChange::differences(moved))
    }

    pub fn type_put(before: Option<&TypeSpec>, spec: &TypeSpec) -> Option<Note> {
        let fields = |spec: &TypeSpec| {
            let mut fields = object(serde_json::to_value(spec).unwrap_or_default());
            fields.remove("name");
            fields
        };
        let was = before.map(fields).unwrap_or_default();
        let mut detail = differences(&was, &fields(spec));
        if before.is_none() && detail.is_empty() {
            detail.insert("created".to_owned(), json!({ "to": true }));
        }
        Note::about(TYPE_PUT, format!("type/{}", spec.name), detail)
    }

    pub fn schedule_put(before: Option<&ScheduleRecord>, after: &ScheduleRecord) -> Option<Note> {
        let was = before.map(description).unwrap_or_default();
        let detail = differences(&was, &description(after));
        Note::about(SCHEDULE_PUT, format!("schedule/{}", after.name), detail)
    }

    pub fn schedule_deleted(before: &ScheduleRecord) -> Option<Note> {
        Note::about(
            SCHEDULE_DELETE,
            format!("schedule/{}", before.name),
            differences(&description(before), &Map::new()),
        )
    }

    pub fn schedule_paused(name: &str, paused: bool) -> Option<Note> {
        let act = if paused { SCHEDULE_PAUSE } else { SCHEDULE_RESUME };
        let detail = object(json!({ "paused": { "from": !paused, "to": paused } }));
        Note::about(act, format!("schedule/{name}"), detail)
    }

    /// Of a run that an operator asked for.
    pub fn schedule_run(name: &str, job: JobId) -> Option<Note> {
        let detail = object(json!({ "job": { "to": job.to_string() } }));
        Note::about(SCHEDULE_RUN, format!("schedule/{name}"), detail)
    }

    pub fn workflow_cancelled(id: WorkflowId, states: [WorkflowState; 2], bulk: &Bulk) -> Option<Note> {
        workflow(WORKFLOW_CANCEL, id, states, bulk)
    }

    pub fn workflow_retried(id: WorkflowId, states: [WorkflowState; 2], bulk: &Bulk) -> Option<Note> {
        workflow(WORKFLOW_RETRY, id, states, bulk)
    }

    /// A whole run, however many transactions it took.
    pub fn cleanup(prune: &Prune, rows: u64) -> Option<Note> {
        if prune.dry_run {
            return None;
        }
        Note::cleanup_of(prune.what.name(), prune.older_than, rows)
    }

    /// The same for a clean-up task of a part.
    pub fn cleanup_of(task: &str, older_than: Duration, rows: u64) -> Option<Note> {
        if rows == 0 {
            return None;
        }
        let age = crate::duration::format(older_than);
        let detail = object(json!({ "older_than": { "from": age }, "rows": { "to": rows } }));
        Note::about(CLEANUP_RUN, format!("cleanup/{task}"), detail)
    }
}

fn workflow(
    act: &'static str,
    id: WorkflowId,
    [before, after]: [WorkflowState; 2],
    bulk: &Bulk,
) -> Option<Note> {
    if bulk.done + bulk.requested + bulk.superseded == 0 {
        return None;
    }
    let mut detail = Map::new();
    if before != after {
        detail.insert("state".to_owned(), json!({ "from": before.name(), "to": after.name() }));
    }
    add_counts(&mut detail, bulk);
    Note::about(act, format!("workflow/{id}"), detail)
}

/// Each field as it is kept, and the payload.
fn description(record: &ScheduleRecord) -> Map<String, Json> {
    let mut fields: Map<String, Json> = serde_json::from_str(&record.kept).unwrap_or_default();
    let payload = serde_json::from_slice(&record.payload).unwrap_or_default();
    fields.insert("payload".to_owned(), payload);
    fields
}

fn object(value: Json) -> Map<String, Json> {
    match value {
        Json::Object(object) => object,
        _ => Map::new(),
    }
}
