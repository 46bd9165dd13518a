//! Retry, cancel and delete: one job by id, or many by a filter.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_core::input::shown;
use windlass_core::store::Action;
use windlass_core::{Invalid, JobState};
use windlass_engine::operate::{Acted, FilterWords};
use windlass_pack::fields::Fields;
use windlass_pack::{Answer, Answered, Call, Route, SMALL_BODY, Schemas, Scope, Shape, json, nothing, ok};

use super::{Table, job_id, jobs, route};
use crate::app::App;
use crate::view::{BulkView, DetailView, State};

/// A filter may contain this many ids, at twenty bytes each.
const BULK_BODY: usize = 20 * SMALL_BODY;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    vec![
        route(
            app,
            Method::POST,
            "/v1/jobs/{id}/retry",
            "retry_job",
            "Run a finished job again, or a scheduled one now",
            retry,
        )
        .needs(Scope::Operate)
        .path("id", "Id of the job")
        .json::<DetailView>(200, "The job; superseded if a waiting job has its unique key"),
        route(
            app,
            Method::POST,
            "/v1/jobs/{id}/cancel",
            "cancel_job",
            "Cancel a job that has not finished",
            cancel,
        )
        .needs(Scope::Operate)
        .path("id", "Id of the job")
        .json::<DetailView>(200, "It is cancelled")
        .json::<DetailView>(202, "It runs; its worker was asked to stop"),
        route(
            app,
            Method::DELETE,
            "/v1/jobs/{id}",
            "delete_job",
            "Delete a finished job with its attempts and logs",
            delete,
        )
        .needs(Scope::Operate)
        .path("id", "Id of the job")
        .answers(204, "Deleted", Answered::Nothing),
        route(
            app,
            Method::POST,
            "/v1/jobs/bulk",
            "act_on_jobs",
            "One action on every job that matches a filter",
            many,
        )
        .needs(Scope::Operate)
        .example(json!({ "action": "retry", "filter": { "state": ["dead_letter"], "kind": "FAIL" } }))
        .body::<BulkOf>(BULK_BODY)
        .json::<BulkView>(200, "Counts of what was done"),
    ]
}

async fn retry(app: Arc<App>, call: Call) -> Answer {
    act(&app, &call, Action::Retry, &[]).await
}

async fn cancel(app: Arc<App>, call: Call) -> Answer {
    act(&app, &call, Action::Cancel, &[]).await
}

async fn delete(app: Arc<App>, call: Call) -> Answer {
    act(&app, &call, Action::Delete, &[]).await
}

/// `only` limits the route to some states; a job in another state is not found.
pub(super) async fn act(app: &App, call: &Call, action: Action, only: &[JobState]) -> Answer {
    let id = job_id(call)?;
    let (status, detail) = match app.client.act_on_job(id, only, action, call.actor()).await? {
        Acted::Deleted => return Ok(nothing()),
        Acted::Requested(detail) => (StatusCode::ACCEPTED, detail),
        Acted::Done(detail) => (StatusCode::OK, detail),
    };
    json(status, &jobs::view(app, &detail).await?)
}

fn action(text: &str) -> Result<Action, String> {
    let known = [Action::Retry, Action::Cancel, Action::Delete];
    let found = known.into_iter().find(|action| action.word() == text);
    found.ok_or_else(|| format!("must be retry, cancel or delete, not `{}`", shown(text)))
}

struct BulkOf;

impl Shape for BulkOf {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("BulkAction", "One action on every job that matches.", |bulk| {
            bulk.required::<ActionOf>("action", "retry also applies to dead letters");
            bulk.required::<FilterOf>("filter", "All conditions must hold; at least one is required");
        })
    }
}

struct ActionOf;

impl Shape for ActionOf {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "enum": ["retry", "cancel", "delete"] })
    }
}

struct FilterOf;

impl Shape for FilterOf {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("JobFilter", "Which jobs are meant.", |filter| {
            filter.optional::<Vec<String>>("ids", "Ids of jobs, at most 10,000");
            filter.optional::<Vec<State>>("state", "One state or a list of them");
            filter.optional::<String>("queue", "");
            filter.optional::<String>("kind", "");
            filter.optional::<String>("entity", "As TYPE:ID");
            filter.optional::<String>("tag", "");
        })
    }
}

async fn many(app: Arc<App>, call: Call) -> Answer {
    let mut fields = call.object()?;
    let action = fields.parsed("action", action);
    let mut meant = FilterWords::default();
    let mut within = Invalid::default();
    match fields.raw("filter").map(|raw| Fields::read(raw.get().as_bytes(), "filter.")) {
        None => fields.refuse("filter", "is required"),
        Some(Err(_)) => fields.refuse("filter", "must be an object"),
        Some(Ok(filter)) => (meant, within) = read(filter),
    }
    let found = fields.end().err().unwrap_or_default().and(within);
    let (done, missing) = app.client.act_on_jobs(action, &meant, found, call.actor()).await?;
    ok(&BulkView::new(&done, missing))
}

fn read(mut fields: Fields<'_>) -> (FilterWords, Invalid) {
    let meant = FilterWords {
        ids: fields.texts("ids"),
        states: fields.one_or_more("state"),
        queue: fields.text("queue"),
        kind: fields.text("kind"),
        entity: fields.text("entity"),
        tag: fields.text("tag"),
    };
    (meant, fields.end().err().unwrap_or_default())
}
