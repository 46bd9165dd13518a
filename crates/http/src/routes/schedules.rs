//! Schedules: their definition and state, and actions of operators.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::json;
use windlass_core::input::shown;
use windlass_core::schedule::{MAX_SCHEDULE_BYTES, check_free};
use windlass_core::store::{Put, ScheduleRecord};
use windlass_engine::EngineError;
use windlass_pack::paging::{Paging, paged};
use windlass_pack::{Answer, Answered, Call, Problem, Route, Scope, json, nothing, ok};

use super::enqueue::shown_job;
use super::{Table, route};
use crate::app::App;
use crate::schedule::{NewSchedule, read_schedule};
use crate::view::{EnqueuedView, ListView, ScheduleView};

/// Whitespace makes the text longer; the actual size is checked later.
const BODY: usize = 2 * MAX_SCHEDULE_BYTES;
const NAME: &str = "Name of the schedule";
/// Prefix of the last name in a page's cursor, so that an invalid cursor is recognized.
const AFTER: &str = "after:";

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let list = route(app, Method::GET, "/v1/schedules", "list_schedules", "Every schedule, by name", list)
        .needs(Scope::Read);
    vec![
        paged(list, "Most schedules on a page").json::<ListView<ScheduleView>>(200, "A page of schedules"),
        route(
            app,
            Method::GET,
            "/v1/schedules/{name}",
            "get_schedule",
            "One schedule and its next ticks",
            get,
        )
        .needs(Scope::Read)
        .path_example("name", "nightly")
        .path("name", NAME)
        .json::<ScheduleView>(200, "The schedule"),
        route(
            app,
            Method::PUT,
            "/v1/schedules/{name}",
            "put_schedule",
            "Create or replace a schedule; it keeps its last tick",
            put,
        )
        .needs(Scope::Operate)
        .example(json!({ "kind": "NOOP", "cron": "30 2 * * *", "zone": "Europe/Berlin" }))
        .path_example("name", "nightly")
        .path(
            "name",
            "Name of the schedule: at most 55 of A–Z a–z 0–9 _ - . :, and not beginning with windlass-",
        )
        .body::<NewSchedule>(BODY)
        .json::<ScheduleView>(200, "The schedule")
        .json::<ScheduleView>(201, "Created; it starts now"),
        route(
            app,
            Method::DELETE,
            "/v1/schedules/{name}",
            "delete_schedule",
            "Delete a schedule; its jobs stay",
            delete,
        )
        .needs(Scope::Operate)
        .path_example("name", "nightly")
        .path("name", NAME)
        .answers(204, "Deleted", Answered::Nothing),
        route(
            app,
            Method::POST,
            "/v1/schedules/{name}/run",
            "run_schedule",
            "Enqueue one job now, without affecting the ticks",
            run,
        )
        .needs(Scope::Operate)
        .path_example("name", "nightly")
        .path("name", NAME)
        .header("Prefer", "`wait=N`: answer when the job is finished, or after N (at most 60) seconds")
        .json::<EnqueuedView>(201, "The job, with the tag `trigger:manual`")
        .json::<EnqueuedView>(200, "A job with its unique key exists already: `duplicate` is true")
        .json::<EnqueuedView>(202, "The job has not finished yet and continues"),
        route(
            app,
            Method::POST,
            "/v1/schedules/{name}/pause",
            "pause_schedule",
            "Stop ticking until it is resumed",
            pause,
        )
        .needs(Scope::Operate)
        .path_example("name", "nightly")
        .path("name", NAME)
        .json::<ScheduleView>(200, "The schedule"),
        route(
            app,
            Method::POST,
            "/v1/schedules/{name}/resume",
            "resume_schedule",
            "Tick again; missed ticks are handled by its misfire policy",
            resume,
        )
        .needs(Scope::Operate)
        .path_example("name", "nightly")
        .path("name", NAME)
        .json::<ScheduleView>(200, "The schedule"),
    ]
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    let own = |cursor: &str| cursor.strip_prefix(AFTER).filter(|name| !name.is_empty()).map(str::to_owned);
    let paging = Paging::read(&call, own)?;
    let records = app.client.schedules(paging.cursor.as_deref(), paging.wanted()).await?;
    let cursor = |record: &ScheduleRecord| format!("{AFTER}{}", record.name);
    ok(&paging.list(records, cursor, |record| ScheduleView::from(&record))?)
}

async fn get(app: Arc<App>, call: Call) -> Answer {
    shown_one(app.client.schedule(call.path("name")).await?, &call)
}

async fn put(app: Arc<App>, call: Call) -> Answer {
    let (described, found) = read_schedule(call.path("name"), call.object()?);
    if !found.problems.is_empty() {
        let name = check_free(&described.spec.name).err().unwrap_or_default();
        let rules = name.and(app.client.check_schedule(&described.spec).await?);
        return Err(Problem::invalid(described.beside(found, rules)));
    }
    let put =
        app.client.put_schedule(&described.spec, Some(call.actor())).await.map_err(|error| match error {
            EngineError::Invalid(invalid) => Problem::invalid(described.in_its_words(invalid)),
            other => other.into(),
        })?;
    let status = if put.what == Put::Created { StatusCode::CREATED } else { StatusCode::OK };
    json(status, &ScheduleView::from(&put.record))
}

async fn delete(app: Arc<App>, call: Call) -> Answer {
    match app.client.delete_schedule(call.path("name"), Some(call.actor())).await? {
        true => Ok(nothing()),
        false => Err(missing(&call)),
    }
}

async fn run(app: Arc<App>, call: Call) -> Answer {
    let wait = call.wait()?;
    let enqueued = app.client.run_schedule(call.path("name"), Some(call.actor())).await?;
    shown_job(&app, enqueued.ok_or_else(|| missing(&call))?, wait).await
}

async fn pause(app: Arc<App>, call: Call) -> Answer {
    shown_one(app.client.pause_schedule(call.path("name"), true, Some(call.actor())).await?, &call)
}

async fn resume(app: Arc<App>, call: Call) -> Answer {
    shown_one(app.client.pause_schedule(call.path("name"), false, Some(call.actor())).await?, &call)
}

fn shown_one(record: Option<ScheduleRecord>, call: &Call) -> Answer {
    ok(&ScheduleView::from(&record.ok_or_else(|| missing(call))?))
}

fn missing(call: &Call) -> Problem {
    Problem::not_found(format!("there is no schedule `{}`", shown(call.path("name"))))
}
