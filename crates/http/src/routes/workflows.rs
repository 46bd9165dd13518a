//! Workflows: writing one, how it stands, cancel and retry of the whole.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use windlass_core::input::shown;
use windlass_core::store::{Bulk, WorkflowDetail, WorkflowFilter};
use windlass_core::workflow::WorkflowState;
use windlass_core::{Invalid, WorkflowId};
use windlass_engine::bulk;

use super::{Table, jobs, route};
use crate::app::App;
use crate::call::Call;
use crate::paging::{Paging, paged};
use crate::problem::Problem;
use crate::route::{Answer, Route, json, ok};
use crate::shape::{Schemas, Shape};
use crate::view::{ListView, WorkflowDetailView, WorkflowStateName, WorkflowView};
use crate::workflow::{NewWorkflow, workflow_request};

const ID: &str = "Id of the workflow";

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let limit = app.as_ref().map_or(usize::MAX, |app| app.options.body_limit);
    let list =
        route(app, Method::GET, "/v1/workflows", "list_workflows", "List workflows, newest first", list)
            .query("state", "Only this state", WorkflowStateName::schema(&mut Schemas::default()));
    vec![
        route(
            app,
            Method::POST,
            "/v1/workflows",
            "start_workflow",
            "Enqueue jobs of which some run after others, all or nothing",
            start,
        )
        .body::<NewWorkflow>(limit)
        .json::<WorkflowDetailView>(201, "The workflow; jobs that wait for nobody are in their queues"),
        paged(list, "Most workflows on a page").json::<ListView<WorkflowView>>(200, "A page of workflows"),
        route(app, Method::GET, "/v1/workflows/{id}", "get_workflow", "One workflow with its jobs", get)
            .path("id", ID)
            .json::<WorkflowDetailView>(200, "The workflow"),
        route(
            app,
            Method::POST,
            "/v1/workflows/{id}/cancel",
            "cancel_workflow",
            "Cancel what has not ended; workers of running jobs are asked to stop",
            cancel,
        )
        .path("id", ID)
        .json::<WorkflowDetailView>(200, "The workflow as it is now"),
        route(
            app,
            Method::POST,
            "/v1/workflows/{id}/retry",
            "retry_workflow",
            "Run again what failed, died or was cancelled; completed jobs stay",
            retry,
        )
        .path("id", ID)
        .json::<WorkflowDetailView>(200, "The workflow as it is now"),
    ]
}

async fn start(app: Arc<App>, call: Call) -> Answer {
    let request = workflow_request(jobs::read(&call)?).map_err(Problem::invalid)?;
    let started = app.client.enqueue_workflow(request).await?;
    json(StatusCode::CREATED, &WorkflowDetailView::from(&find(&app, &call, started.id).await?))
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    let paging = Paging::read(&call, |text| text.parse().ok().map(WorkflowId))?;
    let state = call.query("state").map(str::parse::<WorkflowState>).transpose();
    let state = state.map_err(|e| Problem::parameter(Invalid::one("state", e.to_string())))?;
    let filter = WorkflowFilter { state, before: paging.cursor, limit: paging.wanted() };
    let found = app.client.store().workflows(&filter).await?;
    ok(&paging.list(found, |record| record.id.to_string(), |record| WorkflowView::from(&record)))
}

async fn get(app: Arc<App>, call: Call) -> Answer {
    let id = id(&call)?;
    ok(&WorkflowDetailView::from(&find(&app, &call, id).await?))
}

async fn cancel(app: Arc<App>, call: Call) -> Answer {
    let id = id(&call)?;
    let done = app.client.store().cancel_workflow(id).await?;
    changed(&app, &call, id, done, "cancel needs one that has not ended").await
}

async fn retry(app: Arc<App>, call: Call) -> Answer {
    let id = id(&call)?;
    let done = app.client.store().retry_workflow(id).await?;
    let needs = "retry needs jobs that failed, died or were cancelled, and none that were undone";
    changed(&app, &call, id, done, needs).await
}

async fn changed(app: &App, call: &Call, id: WorkflowId, done: Option<Bulk>, needs: &str) -> Answer {
    let done = done.ok_or_else(|| missing(call))?;
    let found = find(app, call, id).await?;
    if bulk::touched(&done) == 0 {
        let why = format!("workflow {id} is {}; {needs}", found.workflow.state);
        return Err(Problem::conflict("wrong_state", why));
    }
    ok(&WorkflowDetailView::from(&found))
}

async fn find(app: &App, call: &Call, id: WorkflowId) -> Result<WorkflowDetail, Problem> {
    app.client.store().workflow(id).await?.ok_or_else(|| missing(call))
}

/// An id is a text to callers: one that is no number names nothing.
fn id(call: &Call) -> Result<WorkflowId, Problem> {
    call.path("id").parse().map_err(|_| missing(call))
}

fn missing(call: &Call) -> Problem {
    Problem::not_found(format!(
        "there is no workflow {} here; it may have been cleaned up",
        shown(call.path("id"))
    ))
}
