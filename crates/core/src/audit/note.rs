//! An audit record before it is written.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::differences;
use super::jobs::add_counts;
use super::words::{
    CLEANUP_RUN, JOB_CHANGE, KIND_CHANGE, KIND_REGISTER, QUEUE_CHANGE, SCHEDULE_DELETE, SCHEDULE_PAUSE,
    SCHEDULE_PUT, SCHEDULE_RESUME, SCHEDULE_RUN, TYPE_PUT, WORKFLOW_CANCEL, WORKFLOW_RETRY,
};
use crate::limit::{LayerChange, LimitOwner, LimitValue, Limited};
use crate::store::{Bulk, Prune, ScheduleRecord};
use crate::workflow::WorkflowState;
use crate::{JobId, KindSpec, TypeSpec, WorkflowId};

/// What was done to what. The store adds actor and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAudit {
    pub act: &'static str,
    pub subject: String,
    /// `{"field": {"from", "to"}}`; one side only if there is no other.
    pub detail: Map<String, Json>,
}

impl NewAudit {
    /// `None` if nothing differs: an action without effect is not audited.
    pub fn about(act: &'static str, subject: String, detail: Map<String, Json>) -> Option<NewAudit> {
        (!detail.is_empty()).then_some(NewAudit { act, subject, detail })
    }

    /// Priority or `run_at` of a waiting job.
    pub fn job_changed(id: JobId, before: &Map<String, Json>, after: &Map<String, Json>) -> Option<NewAudit> {
        NewAudit::about(JOB_CHANGE, format!("job/{id}"), differences(before, after))
    }

    pub fn kind_registered(kind: &KindSpec) -> Option<NewAudit> {
        let mut described = object(json!({ "queue": kind.queue, "max_attempts": kind.max_attempts }));
        for limit in LimitOwner::Kind.limits() {
            described.insert(limit.audit_name(), json!(kind.limit(limit.name).map(LimitValue::audit_value)));
        }
        let detail = differences(&Map::new(), &described);
        NewAudit::about(KIND_REGISTER, format!("kind/{}", kind.name), detail)
    }

    /// The pause flag before and after, and the limits of the queue and its resource.
    pub fn queue_changed(name: &str, [from, to]: [bool; 2], moved: &[LayerChange]) -> Option<NewAudit> {
        let mut detail = LayerChange::differences(moved);
        if from != to {
            detail.insert("paused".to_owned(), json!({ "from": from, "to": to }));
        }
        NewAudit::about(QUEUE_CHANGE, format!("queue/{name}"), detail)
    }

    /// The limits of the kind and its resource.
    pub fn kind_changed(name: &str, moved: &[LayerChange]) -> Option<NewAudit> {
        NewAudit::about(KIND_CHANGE, format!("kind/{name}"), LayerChange::differences(moved))
    }

    pub fn type_put(before: Option<&TypeSpec>, spec: &TypeSpec) -> Option<NewAudit> {
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
        NewAudit::about(TYPE_PUT, format!("type/{}", spec.name), detail)
    }

    pub fn schedule_put(before: Option<&ScheduleRecord>, after: &ScheduleRecord) -> Option<NewAudit> {
        let was = before.map(description).unwrap_or_default();
        let detail = differences(&was, &description(after));
        NewAudit::about(SCHEDULE_PUT, format!("schedule/{}", after.name), detail)
    }

    pub fn schedule_deleted(before: &ScheduleRecord) -> Option<NewAudit> {
        NewAudit::about(
            SCHEDULE_DELETE,
            format!("schedule/{}", before.name),
            differences(&description(before), &Map::new()),
        )
    }

    pub fn schedule_paused(name: &str, paused: bool) -> Option<NewAudit> {
        let act = if paused { SCHEDULE_PAUSE } else { SCHEDULE_RESUME };
        let detail = object(json!({ "paused": { "from": !paused, "to": paused } }));
        NewAudit::about(act, format!("schedule/{name}"), detail)
    }

    /// A run that an operator requested.
    pub fn schedule_run(name: &str, job: JobId) -> Option<NewAudit> {
        let detail = object(json!({ "job": { "to": job.to_string() } }));
        NewAudit::about(SCHEDULE_RUN, format!("schedule/{name}"), detail)
    }

    pub fn workflow_cancelled(id: WorkflowId, states: [WorkflowState; 2], bulk: &Bulk) -> Option<NewAudit> {
        workflow(WORKFLOW_CANCEL, id, states, bulk)
    }

    pub fn workflow_retried(id: WorkflowId, states: [WorkflowState; 2], bulk: &Bulk) -> Option<NewAudit> {
        workflow(WORKFLOW_RETRY, id, states, bulk)
    }

    /// A whole cleanup run, however many transactions it took.
    pub fn cleanup(prune: &Prune, rows: u64) -> Option<NewAudit> {
        if prune.dry_run {
            return None;
        }
        NewAudit::cleanup_of(prune.what.name(), prune.older_than, rows)
    }

    /// Like [`NewAudit::cleanup`], for a task of a pack.
    pub fn cleanup_of(task: &str, older_than: Duration, rows: u64) -> Option<NewAudit> {
        if rows == 0 {
            return None;
        }
        let age = crate::duration::format(older_than);
        let detail = object(json!({ "older_than": { "from": age }, "rows": { "to": rows } }));
        NewAudit::about(CLEANUP_RUN, format!("cleanup/{task}"), detail)
    }
}

fn workflow(
    act: &'static str,
    id: WorkflowId,
    [before, after]: [WorkflowState; 2],
    bulk: &Bulk,
) -> Option<NewAudit> {
    if bulk.done + bulk.requested + bulk.superseded == 0 {
        return None;
    }
    let mut detail = Map::new();
    if before != after {
        detail.insert("state".to_owned(), json!({ "from": before.name(), "to": after.name() }));
    }
    add_counts(&mut detail, bulk);
    NewAudit::about(act, format!("workflow/{id}"), detail)
}

/// The stored fields and the payload.
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
