//! `POST /v1/jobs`: one job or an array, validated as a whole before anything is written.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::input::MAX_BATCH;
use windlass_core::store::Enqueued;
use windlass_core::{Invalid, JobRecord};
use windlass_engine::{JobRequest, Waited};
use windlass_pack::fields::{Fields, Unreadable};
use windlass_pack::{Answer, Call, Problem, Route, Schemas, Scope, Shape, json};

use super::{Table, route};
use crate::app::App;
use crate::read_back;
use crate::request::{NewJob, read_job};
use crate::view::{EnqueuedView, JobView, ListView};

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "Enqueue one job, or an array of at most 10,000 all or nothing";
    vec![
        route(app, Method::POST, "/v1/jobs", "enqueue_jobs", about, enqueue)
            .needs(Scope::Write)
            .example(json!({ "kind": "NOOP", "payload": { "order": 42 }, "delay": "10s", "tags": ["try"] }))
            .header_of(
                "Idempotency-Key",
                "The idempotency key of a single job; the same key with another body is 422",
                json!({ "type": "string", "minLength": 1, "maxLength": 256 }),
            )
            .header(
                "Prefer",
                "`wait=N`: answer a single job when it is finished, or after N (at most 60) seconds",
            )
            .body::<OneOrMore>(app.as_ref().map_or(usize::MAX, |app| app.options.body_limit))
            .json::<OneOrMoreEnqueued>(201, "The job, or the jobs in the order of the array")
            .json::<OneOrMoreEnqueued>(200, "All jobs existed already: `duplicate` is true")
            .problem(410, "The job was accepted and deleted before it could be shown")
            .problem(429, "The queue is full")
            .json::<EnqueuedView>(202, "The job has not finished yet and continues"),
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
    let fields = Fields::read(call.body(), "").map_err(|error| match error {
        Unreadable::Syntax(error) => Problem::syntax(&error),
        Unreadable::NotAnObject(sort) => Problem::invalid(Invalid::one(
            "body",
            format!("must be an object or an array of objects, not {sort}"),
        )),
    })?;
    let mut headers = Invalid::default();
    let wait = header(call.read_wait(), &mut headers);
    let key = header(call.read_key(), &mut headers);
    let (mut request, mut body) = read_job(fields);
    if let Some(key) = key {
        // The header is an alternative to the field.
        if request.idempotency_key.as_deref().is_some_and(|field| field != key) {
            body.add("idempotency_key", "differs from the header Idempotency-Key; give only one of them");
        }
        request.idempotency_key = Some(key.to_owned());
    }
    if !headers.problems.is_empty() || !body.problems.is_empty() {
        let rules = app.client.check_jobs(vec![request.clone()], false).await?;
        Problem::both(headers, body.and(rules))?;
    }
    let enqueued = app.client.enqueue(request).await?;
    shown_job(app, enqueued, wait).await
}

/// The value of a header. Adds its problems to `invalid`.
fn header<T>(value: Result<Option<T>, Invalid>, invalid: &mut Invalid) -> Option<T> {
    value.unwrap_or_else(|wrong| {
        invalid.problems.extend(wrong.problems);
        None
    })
}

/// The job now, or once it has finished.
pub(super) async fn shown_job(app: &App, enqueued: Enqueued, wait: Option<Duration>) -> Answer {
    match wait {
        Some(patience) => awaited(app, enqueued, patience).await,
        None => {
            let job = app.read_back.job(enqueued.id).await?.ok_or_else(|| gone(&enqueued))?;
            json(status(enqueued.duplicate), &view(&job, enqueued.duplicate))
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
    let mut headers = Invalid::default();
    if !call.header("idempotency-key").unwrap_or_default().is_empty() {
        let rule = "is for a single job; give each job of an array its own idempotency_key";
        headers.add("Idempotency-Key", rule);
    }
    if call.header("prefer").unwrap_or_default().contains("wait=") {
        headers.add("Prefer", "wait is for a single job");
    }
    let (requests, body) = requests(call.body())?;
    if !headers.problems.is_empty() || !body.problems.is_empty() {
        let rules = app.client.check_jobs(requests.clone(), true).await?;
        Problem::both(headers, body.and(rules))?;
    }
    let enqueued = app.client.enqueue_many(requests).await?;
    let ids: Vec<_> = enqueued.iter().map(|job| job.id).collect();
    let jobs = read_back::read(&app.client, &ids).await?;
    let shown = |enqueued: &Enqueued| jobs.get(&enqueued.id).map(|job| view(job, enqueued.duplicate));
    let items: Vec<EnqueuedView> = enqueued.iter().filter_map(shown).collect();
    json(status(enqueued.iter().all(|job| job.duplicate)), &ListView::whole(items))
}

/// What could be read, and the problems with the rest. An unreadable job keeps its index.
pub(super) fn requests(body: &[u8]) -> Result<(Vec<JobRequest>, Invalid), Problem> {
    let items: Vec<&RawValue> = serde_json::from_slice(body).map_err(|error| Problem::syntax(&error))?;
    let mut invalid = Invalid::default();
    if items.is_empty() || items.len() > MAX_BATCH {
        invalid.add("body", format!("must be an array of 1 to {MAX_BATCH} jobs, not {}", items.len()));
        return Ok((Vec::new(), invalid));
    }
    let mut requests = Vec::with_capacity(items.len());
    for (n, item) in items.into_iter().enumerate() {
        let (request, wrong) = match Fields::read(item.get().as_bytes(), format!("[{n}].")) {
            Ok(fields) => read_job(fields),
            Err(Unreadable::NotAnObject(sort)) => {
                let rule = format!("must be an object, not {sort}");
                (JobRequest::default(), Invalid::one(format!("[{n}]"), rule))
            }
            Err(Unreadable::Syntax(error)) => {
                (JobRequest::default(), Invalid::one(format!("[{n}]"), error.to_string()))
            }
        };
        requests.push(request);
        invalid.problems.extend(wrong.problems);
    }
    Ok((requests, invalid))
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
