//! Jobs as they are shown, and the two things that can be changed about a waiting one.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::store::{Change, JobDetail, JobFilter, Page};
use windlass_core::{Invalid, JobId, JobState};
use windlass_engine::bulk::why_unchanged;

use super::{Table, job_id, no_job, route};
use crate::app::App;
use crate::call::Call;
use crate::fields::{Fields, Unreadable};
use crate::filter::Words;
use crate::paging::{Paging, paged};
use crate::problem::Problem;
use crate::request::{Moment, Priority};
use crate::route::{Answer, Route, SMALL_BODY, ok};
use crate::shape::{Schemas, Shape};
use crate::view::{DetailView, JobView, ListView, State};

/// Each is a list of its own to read.
const MAX_QUEUES: usize = 32;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    vec![
        filtered(route(app, Method::GET, "/v1/jobs", "list_jobs", "List jobs, newest first", list))
            .json::<ListView<JobView>>(200, "A page of jobs"),
        route(
            app,
            Method::GET,
            "/v1/jobs/{id}",
            "get_job",
            "One job with its attempts, errors and log lines",
            get,
        )
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
        .path("id", "Id of the job")
        .body::<ChangeOf>(SMALL_BODY)
        .json::<DetailView>(200, "The job after the change"),
    ]
}

/// The parameters every list of jobs takes.
pub(super) fn filtered(route: Route) -> Route {
    let text = || json!({ "type": "string" });
    let route = route
        .queries(
            "state",
            "Only these states; may be repeated or a list with commas",
            State::schema(&mut Schemas::default()),
        )
        .queries("queue", "Only these queues; may be repeated or a list with commas", text())
        .query("kind", "Only this kind", text())
        .query("entity", "Only jobs about this entity, as TYPE:ID", text())
        .query("tag", "Only jobs with this tag", text());
    paged(route, "Most jobs on a page")
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    listed(&app, &call, &[]).await
}

/// `only` narrows the states a route is about; empty means any.
pub(super) async fn listed(app: &App, call: &Call, only: &[JobState]) -> Answer {
    let paging = Paging::read(call, |text| text.parse().ok().map(JobId))?;
    let filters = filters(app, call, only).await?;
    let page = Page { before: paging.cursor, limit: paging.wanted() };
    let mut jobs = Vec::new();
    for filter in &filters {
        jobs.extend(app.client.store().list(filter, &page).await?);
    }
    if filters.len() > 1 {
        jobs.sort_unstable_by_key(|job| Reverse(job.id));
    }
    ok(&paging.list(jobs, |job| job.id.to_string(), |job| JobView::from(&job)))
}

/// One filter for each queue that is named, or one for all: a job is in one queue, so their lists share nothing.
async fn filters(app: &App, call: &Call, only: &[JobState]) -> Result<Vec<JobFilter>, Problem> {
    let text = |name: &str| call.query(name).map(str::to_owned);
    let mut queues: Vec<String> = Vec::new();
    let named = call.queries("queue").flat_map(|list| list.split(',')).map(str::trim);
    for name in named.filter(|name| !name.is_empty()) {
        if !queues.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            queues.push(name.to_owned());
        }
    }
    if queues.len() > MAX_QUEUES {
        let rule = format!("names {} queues; at most {MAX_QUEUES} are taken", queues.len());
        return Err(Problem::parameter(Invalid::one("queue", rule)));
    }
    let words = |queue: Option<String>| Words {
        states: call.queries("state").map(str::to_owned).collect(),
        queue,
        kind: text("kind"),
        entity: text("entity"),
        tag: text("tag"),
    };
    if queues.is_empty() {
        return Ok(vec![words(None).resolve(&app.client, only, "", Problem::parameter).await?]);
    }
    let mut filters = Vec::with_capacity(queues.len());
    for queue in queues {
        filters.push(words(Some(queue)).resolve(&app.client, only, "", Problem::parameter).await?);
    }
    Ok(filters)
}

async fn get(app: Arc<App>, call: Call) -> Answer {
    show(&app, &call, &[]).await
}

/// A job in another state is not found under a route that is not about it.
pub(super) async fn show(app: &App, call: &Call, only: &[JobState]) -> Answer {
    let id = job_id(call)?;
    let detail = detail(app, id).await?;
    let detail = detail.filter(|detail| only.is_empty() || only.contains(&detail.job.state));
    ok(&view(app, &detail.ok_or_else(|| no_job(call))?).await?)
}

/// With its workflow.
pub(super) async fn view(app: &App, detail: &JobDetail) -> Result<DetailView, Problem> {
    let workflow = match detail.job.workflow {
        Some(id) => app.client.store().workflow(id).await?,
        None => None,
    };
    Ok(DetailView::new(detail, workflow.as_ref()))
}

pub(super) async fn detail(app: &App, id: JobId) -> Result<Option<JobDetail>, Problem> {
    Ok(app.client.store().job(id).await?)
}

/// The one job, of the states a route is about.
pub(super) fn just(id: JobId, only: &[JobState]) -> JobFilter {
    JobFilter { ids: vec![id], states: only.to_vec(), ..JobFilter::default() }
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
    let mut fields = read(&call)?;
    let priority = fields.integer("priority");
    let run_at = fields.time("run_at");
    fields.end().map_err(Problem::invalid)?;
    let mut invalid = Invalid::default();
    if let Some(priority) = priority {
        invalid.check_priority("priority", priority);
    }
    if priority.is_none() && run_at.is_none() {
        invalid.add("body", "must change something: priority or run_at");
    }
    invalid.into_result().map_err(Problem::invalid)?;
    let change = Change { priority: priority.and_then(|priority| u8::try_from(priority).ok()), run_at };
    let changed = app.client.store().change(id, &change).await?;
    let detail = detail(&app, id).await?.ok_or_else(|| no_job(&call))?;
    if !changed {
        return Err(Problem::conflict("not_waiting", why_unchanged(&detail.job)));
    }
    ok(&view(&app, &detail).await?)
}

/// The body of an action: an object, and nothing but one.
pub(crate) fn read(call: &Call) -> Result<Fields<'_>, Problem> {
    Fields::read(call.body(), "").map_err(|error| match error {
        Unreadable::Syntax(error) => Problem::syntax(&error),
        Unreadable::NotAnObject(sort) => {
            Problem::invalid(Invalid::one("body", format!("must be an object, not {sort}")))
        }
    })
}
