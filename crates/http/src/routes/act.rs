//! Retry, cancel and delete: one job by its id, many by a filter.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_core::input::{MAX_BATCH, shown};
use windlass_core::store::{Action, JobFilter};
use windlass_core::{Invalid, JobId, JobState};
use windlass_engine::bulk;

use super::{Table, job_id, jobs, no_job, route};
use crate::app::App;
use crate::call::Call;
use crate::fields::Fields;
use crate::filter::Words;
use crate::problem::Problem;
use crate::route::{Answer, Answered, Route, SMALL_BODY, json, nothing, ok};
use crate::shape::{Schemas, Shape};
use crate::view::{BulkView, DetailView, State};

/// A filter may name this many ids: twenty bytes each.
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
        .path("id", "Id of the job")
        .json::<DetailView>(200, "The job; superseded when it met a waiting twin"),
        route(
            app,
            Method::POST,
            "/v1/jobs/{id}/cancel",
            "cancel_job",
            "Cancel a job that has not finished",
            cancel,
        )
        .path("id", "Id of the job")
        .json::<DetailView>(200, "It is cancelled")
        .json::<DetailView>(202, "It runs; its worker was asked to stop"),
        route(
            app,
            Method::DELETE,
            "/v1/jobs/{id}",
            "delete_job",
            "Delete a finished job with everything it left",
            delete,
        )
        .path("id", "Id of the job")
        .answers(204, "It is gone", Answered::Nothing),
        route(
            app,
            Method::POST,
            "/v1/jobs/bulk",
            "act_on_jobs",
            "One action on every job that matches a filter",
            many,
        )
        .body::<BulkOf>(BULK_BODY)
        .json::<BulkView>(200, "What became of them"),
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

/// `only` narrows the states a route is about; a job in another one is not found there.
pub(super) async fn act(app: &App, call: &Call, action: Action, only: &[JobState]) -> Answer {
    let id = job_id(call)?;
    let done = app.client.store().act(&jobs::just(id, only), action, 1).await?;
    if bulk::touched(&done) == 1 && action == Action::Delete {
        return Ok(nothing());
    }
    let detail = jobs::detail(app, id).await?;
    let detail = detail
        .filter(|detail| bulk::touched(&done) == 1 || only.is_empty() || only.contains(&detail.job.state));
    let detail = detail.ok_or_else(|| no_job(call))?;
    if bulk::touched(&done) == 0 {
        let fitting: Vec<&str> = bulk::fitting(action).into_iter().map(JobState::name).collect();
        let (state, word) = (detail.job.state, word(action));
        let why = match (detail.job.workflow, action.fits(state)) {
            (Some(workflow), true) => {
                format!(
                    "job {id} is {state} because of others in its workflow; {word} those, or workflow {workflow}"
                )
            }
            _ => format!("job {id} is {state}; {word} needs one that is {}", fitting.join(", ")),
        };
        return Err(Problem::conflict("wrong_state", why));
    }
    let status = if done.requested == 1 { StatusCode::ACCEPTED } else { StatusCode::OK };
    json(status, &jobs::view(app, &detail).await?)
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Cancel => "cancel",
        Action::Retry => "retry",
        Action::Delete => "delete",
    }
}

fn action(text: &str) -> Result<Action, String> {
    let known = [Action::Retry, Action::Cancel, Action::Delete];
    let found = known.into_iter().find(|action| word(*action) == text);
    found.ok_or_else(|| format!("must be retry, cancel or delete, not `{}`", shown(text)))
}

struct BulkOf;

impl Shape for BulkOf {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("BulkAction", "One action on every job that matches.", |bulk| {
            bulk.required::<ActionOf>("action", "retry also replays dead letters");
            bulk.required::<FilterOf>("filter", "All conditions hold; at least one has to be given");
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
    let mut fields = jobs::read(&call)?;
    let action = fields.parsed("action", action);
    let filter = fields.raw("filter");
    if action.is_none() && !fields.is_refused("action") {
        fields.refuse("action", "is required");
    }
    let Some(raw) = filter else {
        fields.refuse("filter", "is required");
        return Err(refused(fields));
    };
    let (Some(action), Ok(inner)) = (action, Fields::read(raw.get().as_bytes(), "filter.")) else {
        if !raw.get().starts_with('{') {
            fields.refuse("filter", "must be an object");
        }
        return Err(refused(fields));
    };
    fields.end().map_err(Problem::invalid)?;
    let (words, ids) = words(inner)?;
    let store = app.client.store().as_ref();
    if !ids.is_empty() {
        let filter = words.resolve(&app.client, &[], "filter.", Problem::invalid).await?;
        let named = ids.len() as u64;
        let done = store.act(&JobFilter { ids, ..filter }, action, u32::MAX).await?;
        return ok(&BulkView::new(&done, named.saturating_sub(bulk::touched(&done) + done.skipped)));
    }
    let filter = words.resolve(&app.client, &bulk::fitting(action), "filter.", Problem::invalid).await?;
    let total = store.count(&filter).await?;
    let done = bulk::act_on_all(store, filter, action, total, |_| {}).await?;
    ok(&BulkView::new(&done, 0))
}

fn refused(fields: Fields<'_>) -> Problem {
    Problem::invalid(fields.end().err().unwrap_or_default())
}

fn words(mut fields: Fields<'_>) -> Result<(Words, Vec<JobId>), Problem> {
    let ids = fields.texts("ids");
    let words = Words {
        states: fields.one_or_more("state"),
        queue: fields.text("queue"),
        kind: fields.text("kind"),
        entity: fields.text("entity"),
        tag: fields.text("tag"),
    };
    fields.end().map_err(Problem::invalid)?;
    let mut invalid = Invalid::default();
    if words.is_empty() && ids.is_empty() {
        invalid.add("filter", "needs at least one condition: ids, state, queue, kind, entity or tag");
    }
    if ids.len() > MAX_BATCH {
        invalid.add("filter.ids", format!("has {} entries; at most {MAX_BATCH} are taken", ids.len()));
    }
    let mut numbers: Vec<JobId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    if numbers.len() < ids.len() {
        invalid.add("filter.ids", "must be ids of jobs");
    }
    invalid.into_result().map_err(Problem::invalid)?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok((words, numbers))
}
