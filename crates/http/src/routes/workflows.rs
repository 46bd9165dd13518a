//! Workflows: start, status, cancel and retry.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use windlass_core::WorkflowId;
use windlass_core::input::shown;
use windlass_core::store::{WorkflowDetail, WorkflowFilter};
use windlass_core::workflow::WorkflowState;
use windlass_pack::paging::{Paging, paged};
use windlass_pack::{Answer, Call, Problem, Route, Schemas, Scope, Shape, json, ok};

use super::{Table, route};
use crate::app::App;
use crate::view::{ListView, WorkflowDetailView, WorkflowStateName, WorkflowView};
use crate::workflow::{NewWorkflow, read_workflow};

const ID: &str = "Id of the workflow";

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let limit = app.as_ref().map_or(usize::MAX, |app| app.options.body_limit);
    let list =
        route(app, Method::GET, "/v1/workflows", "list_workflows", "List workflows, newest first", list)
            .needs(Scope::Read)
            .query("state", "Only this state", WorkflowStateName::schema(&mut Schemas::default()));
    vec![
        route(
            app,
            Method::POST,
            "/v1/workflows",
            "start_workflow",
            "Enqueue jobs of which some run after others; all or nothing",
            start,
        )
        .needs(Scope::Write)
        .example(serde_json::json!({
            "name": "order",
            "jobs": [
                { "name": "reserve", "kind": "NOOP" },
                { "name": "charge", "kind": "NOOP", "payload": { "cents": 1250 } },
                { "name": "ship", "kind": "NOOP", "after": ["reserve", "charge"] },
            ],
        }))
        .body::<NewWorkflow>(limit)
        .json::<WorkflowDetailView>(201, "The workflow; jobs without parents are enqueued"),
        paged(list, "Most workflows on a page").json::<ListView<WorkflowView>>(200, "A page of workflows"),
        route(app, Method::GET, "/v1/workflows/{id}", "get_workflow", "One workflow with its jobs", get)
            .needs(Scope::Read)
            .path("id", ID)
            .json::<WorkflowDetailView>(200, "The workflow"),
        route(
            app,
            Method::POST,
            "/v1/workflows/{id}/cancel",
            "cancel_workflow",
            "Cancel all jobs that have not ended; workers of running ones are asked to stop",
            cancel,
        )
        .needs(Scope::Operate)
        .path("id", ID)
        .json::<WorkflowDetailView>(200, "The workflow"),
        route(
            app,
            Method::POST,
            "/v1/workflows/{id}/retry",
            "retry_workflow",
            "Retry all jobs that failed, died or were cancelled",
            retry,
        )
        .needs(Scope::Operate)
        .path("id", ID)
        .json::<WorkflowDetailView>(200, "The workflow"),
    ]
}

async fn start(app: Arc<App>, call: Call) -> Answer {
    let (request, found) = read_workflow(call.object()?);
    if !found.problems.is_empty() {
        return Err(Problem::invalid(found.and(app.client.check_workflow(request).await?)));
    }
    let started = app.client.enqueue_workflow(request).await?;
    json(StatusCode::CREATED, &WorkflowDetailView::from(&find(&app, &call, started.id).await?))
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    let (paging, mut invalid) = Paging::look(&call, |text| text.parse().ok().map(WorkflowId));
    let state = call.query("state").map(str::parse::<WorkflowState>).transpose();
    let state = state.unwrap_or_else(|error| {
        invalid.add("state", error.to_string());
        None
    });
    invalid.into_result().map_err(Problem::parameter)?;
    let filter = WorkflowFilter { state, before: paging.cursor, limit: paging.wanted() };
    let found = app.client.workflows(&filter).await?;
    ok(&paging.list(found, |record| record.id.to_string(), |record| WorkflowView::from(&record))?)
}

async fn get(app: Arc<App>, call: Call) -> Answer {
    let id = id(&call)?;
    ok(&WorkflowDetailView::from(&find(&app, &call, id).await?))
}

async fn cancel(app: Arc<App>, call: Call) -> Answer {
    let found = app.client.cancel_workflow(id(&call)?, call.actor()).await?;
    ok(&WorkflowDetailView::from(&found))
}

async fn retry(app: Arc<App>, call: Call) -> Answer {
    let found = app.client.retry_workflow(id(&call)?, call.actor()).await?;
    ok(&WorkflowDetailView::from(&found))
}

async fn find(app: &App, call: &Call, id: WorkflowId) -> Result<WorkflowDetail, Problem> {
    app.client.workflow(id).await?.ok_or_else(|| missing(call))
}

/// An id is text to callers, so one that is not a number is simply not found.
fn id(call: &Call) -> Result<WorkflowId, Problem> {
    call.path("id").parse().map_err(|_| missing(call))
}

fn missing(call: &Call) -> Problem {
    Problem::not_found(format!(
        "there is no workflow {} here; it may have been cleaned up",
        shown(call.path("id"))
    ))
}
