//! Listing jobs, and changing priority and time of a waiting one.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::store::{JobDetail, JobFilter, Page};
use windlass_core::{Invalid, JobId, JobState, input};
use windlass_engine::operate::{FilterWords, JobChange};
use windlass_pack::paging::{EXCERPT, Paging, paged};
use windlass_pack::{Answer, Call, Problem, Route, SMALL_BODY, Schemas, Scope, Shape, ok};

use super::{Table, job_id, no_job, route};
use crate::app::App;
use crate::request::{Moment, Priority};
use crate::view::{DetailView, JobView, ListView, State};

/// Each queue is a separate query.
const MAX_QUEUES: usize = 32;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    vec![
        filtered(
            route(app, Method::GET, "/v1/jobs", "list_jobs", "List jobs, newest first", list)
                .needs(Scope::Read),
        )
        .json::<ListView<JobView>>(200, "A page of jobs"),
        route(
            app,
            Method::GET,
            "/v1/jobs/{id}",
            "get_job",
            "One job with its attempts, errors and log lines",
            get,
        )
        .needs(Scope::Read)
        .path("id", "Id of the job")
        .json::<DetailView>(200, "The job"),
        route(
            app,
            Method::PATCH,
            "/v1/jobs/{id}",
            "change_job",
            "Change when and how urgently a waiting job runs",
            change,
        )
        .needs(Scope::Operate)
        .example(json!({ "priority": 0 }))
        .path("id", "Id of the job")
        .body::<ChangeOf>(SMALL_BODY)
        .json::<DetailView>(200, "The job after the change"),
    ]
}

/// The parameters of every list of jobs.
pub(super) fn filtered(route: Route) -> Route {
    paged(conditions(route), "Most jobs on a page")
}

/// The filter parameters.
pub(super) fn conditions(route: Route) -> Route {
    let text = || json!({ "type": "string", "minLength": 1 });
    route
        .queries(
            "state",
            "Only these states; repeat it or separate by commas",
            State::schema(&mut Schemas::default()),
        )
        .queries("queue", "Only these queues; repeat it or separate by commas", text())
        .query("kind", "Only this kind", text())
        .query(
            "entity",
            "Only jobs about this entity",
            json!({ "type": "string", "pattern": "^[^:]+:.+$", "examples": ["document:kettle"] }),
        )
        .query("tag", "Only jobs with this tag", text())
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    listed(&app, &call, &[]).await
}

/// `only` limits the route to some states; empty means any.
pub(super) async fn listed(app: &App, call: &Call, only: &[JobState]) -> Answer {
    let (paging, wrong) = Paging::look(call, |text| text.parse().ok().map(JobId));
    let (filters, invalid) = filters(app, call, only).await?;
    wrong.and(invalid).into_result().map_err(Problem::parameter)?;
    let page = Page { before: paging.cursor, limit: paging.wanted(), excerpt: Some(EXCERPT) };
    let mut jobs = Vec::new();
    for filter in &filters {
        jobs.extend(app.client.jobs(filter, &page).await?);
    }
    if filters.len() > 1 {
        jobs.sort_unstable_by_key(|job| Reverse(job.id));
    }
    ok(&paging.list(jobs, |job| job.id.to_string(), |job| JobView::from(&job))?)
}

/// One filter per queue given, or one for all queues. A job is in one queue, so the lists do not overlap.
pub(super) async fn filters(
    app: &App,
    call: &Call,
    only: &[JobState],
) -> Result<(Vec<JobFilter>, Invalid), Problem> {
    let text = |name: &str| call.query(name).map(str::to_owned);
    let mut queues: Vec<String> = Vec::new();
    let named = call.queries("queue").flat_map(|list| list.split(',')).map(str::trim);
    for name in named.filter(|name| !name.is_empty()) {
        if !queues.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            queues.push(name.to_owned());
        }
    }
    let mut invalid = Invalid::default();
    // An empty condition would match everything, which nobody means who wrote it.
    let is_empty = |value: &str| value.split(',').any(|word| word.trim().is_empty());
    for name in ["state", "queue"] {
        if call.queries(name).any(is_empty) {
            invalid.add(name, "must not be empty; leave it out to match any");
        }
    }
    if call.query("tag") == Some("") {
        invalid.add("tag", "must not be empty; leave it out to match any");
    }
    if queues.len() > MAX_QUEUES {
        invalid.add("queue", format!("names {} queues; at most {MAX_QUEUES} are allowed", queues.len()));
        queues.clear();
    }
    let meant = |queue: Option<String>| FilterWords {
        ids: Vec::new(),
        states: call.queries("state").map(str::to_owned).collect(),
        queue,
        kind: text("kind"),
        entity: text("entity"),
        tag: text("tag"),
    };
    let each: Vec<Option<String>> = match queues.is_empty() {
        true => vec![None],
        false => queues.into_iter().map(Some).collect(),
    };
    let mut filters = Vec::with_capacity(each.len());
    for queue in each {
        let (filter, wrong) = app.client.job_filter(&meant(queue), only, "").await?;
        filters.push(filter);
        let new = |problem: &input::Problem| !invalid.problems.contains(problem);
        let wrong: Vec<input::Problem> = wrong.problems.into_iter().filter(new).collect();
        invalid.problems.extend(wrong);
    }
    Ok((filters, invalid))
}

async fn get(app: Arc<App>, call: Call) -> Answer {
    show(&app, &call, &[]).await
}

/// A job in a state the route is not about is not found.
pub(super) async fn show(app: &App, call: &Call, only: &[JobState]) -> Answer {
    let id = job_id(call)?;
    let detail = app.client.job(id).await?;
    let detail = detail.filter(|detail| only.is_empty() || only.contains(&detail.job.state));
    ok(&view(app, &detail.ok_or_else(|| no_job(call))?).await?)
}

/// Includes the job's workflow.
pub(super) async fn view(app: &App, detail: &JobDetail) -> Result<DetailView, Problem> {
    Ok(DetailView::new(detail, app.client.workflow_of(detail).await?.as_ref()))
}

struct ChangeOf;

impl Shape for ChangeOf {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("JobChange", "What to change about a waiting job; at least one field.", |change| {
            change.optional::<Priority>("priority", "0 is most urgent");
            change.optional::<Moment>("run_at", "When it is due; a time in the past means now");
        })
    }
}

async fn change(app: Arc<App>, call: Call) -> Answer {
    let id = job_id(&call)?;
    let mut fields = call.object()?;
    let change = JobChange { priority: fields.integer("priority"), run_at: fields.time("run_at") };
    let found = fields.end().err().unwrap_or_default();
    let detail = app.client.change_job(id, &change, found, call.actor()).await?;
    ok(&view(&app, &detail).await?)
}
