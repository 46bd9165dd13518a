//! `POST /v1/jobs`: one job or an array of them, checked as a whole before anything is written.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::input::{MAX_BATCH, shown};
use windlass_core::store::Enqueued;
use windlass_core::{Invalid, JobRecord};
use windlass_engine::{JobRequest, Waited};

use super::{Table, route};
use crate::app::App;
use crate::call::Call;
use crate::fields::{Fields, Unreadable};
use crate::problem::Problem;
use crate::read_back;
use crate::request::{NewJob, job_request};
use crate::route::{Answer, Route, json};
use crate::shape::{Schemas, Shape};
use crate::view::{EnqueuedView, JobView, ListView};

const MAX_WAIT: u64 = 60;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "Enqueue one job, or an array of at most 10,000 all or nothing";
    vec![
        route(app, Method::POST, "/v1/jobs", "enqueue_jobs", about, enqueue)
            .header(
                "Idempotency-Key",
                "The idempotency key of a single job; the same key with another body is 422",
            )
            .header(
                "Prefer",
                "`wait=N`: answer a single job when it is finished, or after N (at most 60) seconds",
            )
            .body::<OneOrMore>(app.as_ref().map_or(usize::MAX, |app| app.options.body_limit))
            .json::<OneOrMoreEnqueued>(201, "The job, or the jobs in the order of the array")
            .json::<OneOrMoreEnqueued>(200, "Every job was there already: `duplicate` is true")
            .json::<EnqueuedView>(202, "The awaited job is not finished yet; it goes on"),
    ]
}

struct OneOrMore;

impl Shape for OneOrMore {
    fn schema(schemas: &mut Schemas) -> Value {
        let one = NewJob::schema(schemas);
        json!({ "oneOf": [one, { "type": "array", "items": one, "minItems": 1, "maxItems": MAX_BATCH }] })
    }
}

struct OneOrMoreEnqueued;

impl Shape for OneOrMoreEnqueued {
    fn schema(schemas: &mut Schemas) -> Value {
        let (one, many) = (EnqueuedView::schema(schemas), ListView::<EnqueuedView>::schema(schemas));
        json!({ "oneOf": [one, many] })
    }
}

async fn enqueue(app: Arc<App>, call: Call) -> Answer {
    match call.body().trim_ascii_start().first() {
        Some(b'[') => many(&app, &call).await,
        _ => one(&app, &call).await,
    }
}

async fn one(app: &App, call: &Call) -> Answer {
    let wait = wait(call)?;
    let fields = Fields::read(call.body(), "").map_err(|error| match error {
        Unreadable::Syntax(error) => Problem::syntax(&error),
        Unreadable::NotAnObject(sort) => Problem::invalid(Invalid::one(
            "body",
            format!("must be an object or an array of objects, not {sort}"),
        )),
    })?;
    let request = keyed(job_request(fields).map_err(Problem::invalid)?, call)?;
    let enqueued = app.client.enqueue(request).await?;
    shown_job(app, enqueued, wait).await
}

/// The job as it is, or as it is once it has finished.
pub(super) async fn shown_job(app: &App, enqueued: Enqueued, wait: Option<Duration>) -> Answer {
    match wait {
        Some(patience) => awaited(app, enqueued, patience).await,
        None => {
            let job = app.read_back.job(enqueued.id).await?.ok_or_else(|| gone(&enqueued))?;
            json(status(enqueued.duplicate), &view(&job, enqueued.duplicate))
        }
    }
}

/// `Idempotency-Key`.
pub(crate) fn idempotency_key(call: &Call) -> Result<Option<&str>, Problem> {
    match (call.headers().contains_key("idempotency-key"), call.header("idempotency-key")) {
        (false, _) => Ok(None),
        (true, Some(key)) => Ok(Some(key)),
        (true, None) => Err(Problem::parameter(Invalid::one("Idempotency-Key", "must be visible ASCII"))),
    }
}

/// The header is the field by another name.
fn keyed(mut request: JobRequest, call: &Call) -> Result<JobRequest, Problem> {
    let Some(key) = idempotency_key(call)? else { return Ok(request) };
    if request.idempotency_key.as_deref().is_some_and(|field| field != key) {
        let rule = "is not what the header Idempotency-Key says; give one of them";
        return Err(Problem::invalid(Invalid::one("idempotency_key", rule)));
    }
    request.idempotency_key = Some(key.to_owned());
    Ok(request)
}

/// `Prefer: wait=N`; other preferences are somebody else's.
pub(crate) fn wait(call: &Call) -> Result<Option<Duration>, Problem> {
    let preferences = call.header("prefer").unwrap_or_default().split([',', ';']);
    let Some(text) = preferences.filter_map(|one| one.trim().strip_prefix("wait=")).next() else {
        return Ok(None);
    };
    match text.trim().parse::<u64>() {
        Ok(seconds) if seconds <= MAX_WAIT => Ok(Some(Duration::from_secs(seconds))),
        _ => {
            let rule = format!("wait must be 0 to {MAX_WAIT} seconds, not `{}`", shown(text));
            Err(Problem::parameter(Invalid::one("Prefer", rule)))
        }
    }
}

async fn awaited(app: &App, enqueued: Enqueued, patience: Duration) -> Answer {
    let waited = tokio::select! {
        waited = app.client.wait(enqueued.id, patience) => waited?,
        () = app.stopping() => Waited::TimedOut,
    };
    match waited {
        Waited::Finished(job) => json(status(enqueued.duplicate), &view(&job, enqueued.duplicate)),
        Waited::TimedOut => {
            let job = app.read_back.job(enqueued.id).await?.ok_or_else(|| gone(&enqueued))?;
            json(StatusCode::ACCEPTED, &view(&job, enqueued.duplicate))
        }
        Waited::Unknown => Err(gone(&enqueued)),
    }
}

async fn many(app: &App, call: &Call) -> Answer {
    for header in ["idempotency-key", "prefer"] {
        let said = call.header(header).unwrap_or_default();
        if header == "idempotency-key" && !said.is_empty() {
            let rule = "is for a single job; give each job of an array its own idempotency_key";
            return Err(Problem::parameter(Invalid::one("Idempotency-Key", rule)));
        }
        if said.contains("wait=") {
            return Err(Problem::parameter(Invalid::one("Prefer", "wait is for a single job")));
        }
    }
    let requests = requests(call.body())?;
    let enqueued = app.client.enqueue_many(requests).await?;
    let ids: Vec<_> = enqueued.iter().map(|job| job.id).collect();
    let jobs = read_back::read(&app.client, &ids).await?;
    let shown = |enqueued: &Enqueued| jobs.get(&enqueued.id).map(|job| view(job, enqueued.duplicate));
    let items: Vec<EnqueuedView> = enqueued.iter().filter_map(shown).collect();
    json(status(enqueued.iter().all(|job| job.duplicate)), &ListView::whole(items))
}

fn requests(body: &[u8]) -> Result<Vec<JobRequest>, Problem> {
    let items: Vec<&RawValue> = serde_json::from_slice(body).map_err(|error| Problem::syntax(&error))?;
    if items.is_empty() || items.len() > MAX_BATCH {
        let rule = format!("must be an array of 1 to {MAX_BATCH} jobs, not {}", items.len());
        return Err(Problem::invalid(Invalid::one("body", rule)));
    }
    let mut invalid = Invalid::default();
    let mut requests = Vec::with_capacity(items.len());
    for (n, item) in items.into_iter().enumerate() {
        let within = format!("[{n}].");
        match Fields::read(item.get().as_bytes(), within).map(job_request) {
            Ok(Ok(request)) => requests.push(request),
            Ok(Err(wrong)) => invalid.problems.extend(wrong.problems),
            Err(Unreadable::NotAnObject(sort)) => {
                invalid.add(format!("[{n}]"), format!("must be an object, not {sort}"));
            }
            Err(Unreadable::Syntax(error)) => invalid.add(format!("[{n}]"), error.to_string()),
        }
    }
    invalid.into_result().map_err(Problem::invalid)?;
    Ok(requests)
}

fn view(job: &JobRecord, duplicate: bool) -> EnqueuedView {
    EnqueuedView { job: JobView::from(job), duplicate }
}

fn status(duplicate: bool) -> StatusCode {
    if duplicate { StatusCode::OK } else { StatusCode::CREATED }
}

fn gone(enqueued: &Enqueued) -> Problem {
    let detail = format!("job {} was accepted and deleted before it could be shown", enqueued.id);
    Problem::new(StatusCode::GONE, "job_deleted", "The job is gone", detail)
}
