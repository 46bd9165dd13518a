//! Jobs as they are shown, and the two things that can be changed about a waiting one.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::store::{Change, JobDetail, JobFilter, Page};
use windlass_core::{Invalid, JobId, JobState};

use super::{job_id, no_job, route};
use crate::app::App;
use crate::call::Call;
use crate::fields::{Fields, Unreadable};
use crate::filter::Words;
use crate::problem::Problem;
use crate::request::{Moment, Priority};
use crate::route::{Answer, Route, SMALL_BODY, ok};
use crate::shape::{Schemas, Shape};
use crate::view::{DetailView, JobView, ListView, State};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1_000;

pub(super) fn routes(app: &Arc<App>) -> Vec<Route> {
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
    route
        .queries(
            "state",
            "Only these states; may be repeated or a list with commas",
            State::schema(&mut Schemas::default()),
        )
        .query("queue", "Only this queue", text())
        .query("kind", "Only this kind", text())
        .query("entity", "Only jobs about this entity, as TYPE:ID", text())
        .query("tag", "Only jobs with this tag", text())
        .query("cursor", "The `next_cursor` of the page before", text())
        .query(
            "limit",
            "Most jobs on a page",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT }),
        )
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    listed(&app, &call, &[]).await
}

/// `only` narrows the states a route is about; empty means any.
pub(super) async fn listed(app: &App, call: &Call, only: &[JobState]) -> Answer {
    let (before, limit) = page(call)?;
    let text = |name: &str| call.query(name).map(str::to_owned);
    let words = Words {
        states: call.queries("state").map(str::to_owned).collect(),
        queue: text("queue"),
        kind: text("kind"),
        entity: text("entity"),
        tag: text("tag"),
    };
    let filter = words.resolve(&app.client, only, "", Problem::parameter).await?;
    // One more than asked for tells whether there is a next page.
    let page = Page { before, limit: limit + 1 };
    let mut jobs = app.client.store().list(&filter, &page).await?;
    let more = jobs.len() > limit as usize;
    jobs.truncate(limit as usize);
    let next_cursor = jobs.last().filter(|_| more).map(|job| job.id.to_string());
    ok(&ListView { items: jobs.iter().map(JobView::from).collect(), next_cursor })
}

fn page(call: &Call) -> Result<(Option<JobId>, u32), Problem> {
    let mut invalid = Invalid::default();
    let before = call.query("cursor").and_then(|text| match text.parse() {
        Ok(id) => Some(JobId(id)),
        Err(_) => {
            invalid.add("cursor", "must be the next_cursor of an earlier page");
            None
        }
    });
    let limit = match call.query("limit").map(str::parse::<u32>) {
        None => DEFAULT_LIMIT,
        Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
        Some(_) => {
            invalid.add("limit", format!("must be 1 to {MAX_LIMIT}"));
            DEFAULT_LIMIT
        }
    };
    invalid.into_result().map_err(Problem::parameter)?;
    Ok((before, limit))
}

async fn get(app: Arc<App>, call: Call) -> Answer {
    show(&app, &call, &[]).await
}

/// A job in another state is not found under a route that is not about it.
pub(super) async fn show(app: &App, call: &Call, only: &[JobState]) -> Answer {
    let id = job_id(call)?;
    let detail = detail(app, id).await?;
    let detail = detail.filter(|detail| only.is_empty() || only.contains(&detail.job.state));
    ok(&DetailView::from(&detail.ok_or_else(|| no_job(call))?))
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
        let why = format!("job {id} is {}; only a waiting job can be changed", detail.job.state);
        return Err(Problem::conflict("not_waiting", why));
    }
    ok(&DetailView::from(&detail))
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
