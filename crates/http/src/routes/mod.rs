//! The table of routes, one file per resource.

mod act;
mod audit;
mod budgets;
mod dead_letters;
mod enqueue;
mod health;
mod jobs;
mod pages;
mod queues;
mod registry;
mod schedules;
mod stats;
mod workflows;

use std::sync::Arc;

use axum::http::Method;
use windlass_core::JobId;

use crate::app::App;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Route};

pub(crate) use enqueue::{idempotency_key, wait};
pub(crate) use jobs::read as read_object;

/// Who does it, as long as there are no keys.
const ACTOR: &str = "http";

/// What handlers have at hand; without it the routes are only described.
pub(crate) type Table = Option<Arc<App>>;

pub(crate) fn all(app: &Table) -> Vec<Route> {
    let parts = [
        enqueue::routes(app),
        jobs::routes(app),
        act::routes(app),
        dead_letters::routes(app),
        queues::routes(app),
        registry::routes(app),
        budgets::routes(app),
        audit::routes(app),
        schedules::routes(app),
        workflows::routes(app),
        stats::routes(app),
        health::routes(app),
        pages::routes(),
    ];
    parts.into_iter().flatten().collect()
}

/// A route whose handler has the app at hand.
fn route<A>(
    app: &Table,
    method: Method,
    path: &'static str,
    name: &'static str,
    about: &'static str,
    handler: fn(Arc<App>, Call) -> A,
) -> Route
where
    A: Future<Output = Answer> + Send + 'static,
{
    Route::behind(app, method, path, name, about, handler)
}

/// An id is a text to callers: one that is no number names nothing.
fn job_id(call: &Call) -> Result<JobId, Problem> {
    call.path("id").parse().map_err(|_| no_job(call))
}

fn no_job(call: &Call) -> Problem {
    let id = windlass_core::input::shown(call.path("id"));
    Problem::not_found(format!("there is no job {id} here; it may have been cleaned up"))
}
