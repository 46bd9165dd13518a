//! Validates jobs without enqueueing them. A file that is longer than one request is validated as a whole before its
//! first part is enqueued.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::input::MAX_BATCH;
use windlass_pack::view::FieldError;
use windlass_pack::{Answer, Call, Problem, Route, Schemas, Scope, Shape, ok, shape};

use super::enqueue::requests;
use super::{Table, route};
use crate::app::App;

/// Of ten thousand invalid jobs, only the first problems are listed.
const SHOWN: usize = 100;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "Validate an array of jobs as `POST /v1/jobs` would; nothing is written";
    vec![
        route(app, Method::POST, "/v1/jobs/check", "check_jobs", about, check)
            .needs(Scope::Write)
            .example(json!([{ "kind": "NOOP" }, { "kind": "NOOP", "delay": "5m" }]))
            .body::<Checked>(app.as_ref().map_or(usize::MAX, |app| app.options.body_limit))
            .json::<CheckView>(
                200,
                "The problems; depth caps and keys are checked only when jobs are enqueued",
            ),
    ]
}

/// Anything may be checked: what is not a job is among the problems.
struct Checked;

impl Shape for Checked {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "array", "minItems": 1, "maxItems": MAX_BATCH, "description": "Objects of `POST /v1/jobs`" })
    }
}

shape! {
    /// The result of validating jobs.
    pub struct CheckView as "JobCheck" {
        pub jobs: u64,
        /// Number of problems; 0 is good.
        pub problems: u64,
        /// The first 100 problems.
        pub errors: Vec<FieldError>,
    }
}

async fn check(app: Arc<App>, call: Call) -> Answer {
    let (requests, wrong) = requests(call.body())?;
    if requests.is_empty() {
        // The body is not an array of jobs.
        wrong.into_result().map_err(Problem::invalid)?;
        return Err(Problem::malformed("there are no jobs in it"));
    }
    let jobs = requests.len() as u64;
    let mut found = wrong.and(app.client.check_jobs(requests, true).await?);
    found.problems.sort_by_key(|problem| place(&problem.field));
    let problems = found.problems.len() as u64;
    let shown = found.problems.into_iter().take(SHOWN);
    let errors = shown.map(|one| FieldError { field: one.field, rule: one.rule }).collect();
    ok(&CheckView { jobs, problems, errors })
}

/// The index of the job a field belongs to: 3 in `[3].kind`.
fn place(field: &str) -> usize {
    let number = field.trim_start_matches('[').split(']').next().unwrap_or_default();
    number.parse().unwrap_or_default()
}
