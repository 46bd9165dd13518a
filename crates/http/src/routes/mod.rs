//! The table of routes, one file per resource.

mod act;
mod audit;
mod backups;
mod budgets;
mod check;
mod cleanup;
mod count;
mod dead_letters;
mod enqueue;
mod health;
mod jobs;
mod overrides;
mod pages;
mod queues;
mod registry;
mod schedules;
mod stats;
mod top;
mod workflows;

use std::sync::Arc;

use axum::http::Method;
use windlass_core::JobId;
use windlass_pack::{Answer, Call, Problem, Route};

use crate::app::App;

pub(crate) use pages::asset;

/// The state for handlers. Without it, routes are only described.
pub(crate) type Table = Option<Arc<App>>;

pub(crate) fn all(app: &Table) -> Vec<Route> {
    let parts = [
        enqueue::routes(app),
        jobs::routes(app),
        count::routes(app),
        check::routes(app),
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
        cleanup::routes(app),
        overrides::routes(app),
        backups::routes(app),
        top::routes(app),
        pages::routes(app),
    ];
    parts.into_iter().flatten().collect()
}

/// A route whose handler gets the app.
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
    let app = app.clone();
    Route::new(method, path, name, about, move |call| {
        let answer = app.clone().map(|app| handler(app, call));
        async move {
            match answer {
                Some(answer) => answer.await,
                None => Err(Problem::not_found("this route is only described")),
            }
        }
    })
}

/// An id is text to callers, so one that is not a number is simply not found.
fn job_id(call: &Call) -> Result<JobId, Problem> {
    call.path("id").parse().map_err(|_| no_job(call))
}

fn no_job(call: &Call) -> Problem {
    let id = windlass_core::input::shown(call.path("id"));
    Problem::not_found(format!("there is no job {id} here; it may have been cleaned up"))
}
