//! Schedules: what they are, where they stand, and what an operator does to them.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::json;
use windlass_core::Invalid;
use windlass_core::input::shown;
use windlass_core::schedule::MAX_SCHEDULE_BYTES;
use windlass_core::store::{Put, ScheduleRecord};
use windlass_engine::EngineError;

use super::enqueue::shown_job;
use super::{Table, jobs, route, wait};
use crate::app::App;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Answered, Route, json, nothing, ok};
use crate::schedule::{NewSchedule, schedule_request};
use crate::view::{EnqueuedView, ListView, ScheduleView};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1_000;
/// A description grows when it is written with spaces; what counts is checked afterwards.
const BODY: usize = 2 * MAX_SCHEDULE_BYTES;
const NAME: &str = "Name of the schedule";
/// Before the last name of a page in its cursor: a word that nobody was given is known as such.
const AFTER: &str = "after:";

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT });
    vec![
        route(app, Method::GET, "/v1/schedules", "list_schedules", "Every schedule, by name", list)
            .query("cursor", "The `next_cursor` of the page before", json!({ "type": "string" }))
            .query("limit", "Most schedules on a page", limit)
            .json::<ListView<ScheduleView>>(200, "A page of schedules"),
        route(
            app,
            Method::GET,
            "/v1/schedules/{name}",
            "get_schedule",
            "One schedule and its next ticks",
            get,
        )
        .path("name", NAME)
        .json::<ScheduleView>(200, "The schedule"),
        route(
            app,
            Method::PUT,
            "/v1/schedules/{name}",
            "put_schedule",
            "Add a schedule, or describe one anew: it keeps its last tick",
            put,
        )
        .path(
            "name",
            "Name of the schedule: at most 55 of A–Z a–z 0–9 _ - . :, and not beginning with windlass-",
        )
        .body::<NewSchedule>(BODY)
        .json::<ScheduleView>(200, "The schedule as it is now")
        .json::<ScheduleView>(201, "It is new, and starts now"),
        route(
            app,
            Method::DELETE,
            "/v1/schedules/{name}",
            "delete_schedule",
            "Take a schedule away; its jobs stay",
            delete,
        )
        .path("name", NAME)
        .answers(204, "It is gone", Answered::Nothing),
        route(
            app,
            Method::POST,
            "/v1/schedules/{name}/run",
            "run_schedule",
            "Enqueue one job of it now; its ticks go on as if nothing had happened",
            run,
        )
        .path("name", NAME)
        .header("Prefer", "`wait=N`: answer when the job is finished, or after N (at most 60) seconds")
        .json::<EnqueuedView>(201, "The job, with the tag `trigger:manual`")
        .json::<EnqueuedView>(200, "A job of its unique key waits already: `duplicate` is true")
        .json::<EnqueuedView>(202, "The awaited job is not finished yet; it goes on"),
        route(
            app,
            Method::POST,
            "/v1/schedules/{name}/pause",
            "pause_schedule",
            "It does not tick until it is resumed",
            pause,
        )
        .path("name", NAME)
        .json::<ScheduleView>(200, "The schedule as it is now"),
        route(
            app,
            Method::POST,
            "/v1/schedules/{name}/resume",
            "resume_schedule",
            "It ticks again; what it missed is made up for by its policy",
            resume,
        )
        .path("name", NAME)
        .json::<ScheduleView>(200, "The schedule as it is now"),
    ]
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    let limit = match call.query("limit").map(str::parse::<u32>) {
        None => DEFAULT_LIMIT,
        Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
        Some(_) => {
            return Err(Problem::parameter(Invalid::one("limit", format!("must be 1 to {MAX_LIMIT}"))));
        }
    };
    let after = match call.query("cursor").map(|cursor| cursor.strip_prefix(AFTER)) {
        None => None,
        Some(Some(name)) if !name.is_empty() => Some(name),
        Some(_) => return Err(Problem::parameter(Invalid::one("cursor", "is not one of ours"))),
    };
    // One more than asked for tells whether there is a next page.
    let mut records = app.client.store().schedules(after, limit + 1).await?;
    let more = records.len() > limit as usize;
    records.truncate(limit as usize);
    let next_cursor = records.last().filter(|_| more).map(|record| format!("{AFTER}{}", record.name));
    ok(&ListView { items: records.iter().map(ScheduleView::from).collect(), next_cursor })
}

async fn get(app: Arc<App>, call: Call) -> Answer {
    shown_one(app.client.store().schedule(call.path("name")).await?, &call)
}

async fn put(app: Arc<App>, call: Call) -> Answer {
    let described = schedule_request(call.path("name"), jobs::read(&call)?).map_err(Problem::invalid)?;
    let put = app.client.put_schedule(&described.spec).await.map_err(|error| match error {
        EngineError::Invalid(invalid) => Problem::invalid(described.in_its_words(invalid)),
        other => other.into(),
    })?;
    let status = if put.what == Put::Created { StatusCode::CREATED } else { StatusCode::OK };
    json(status, &ScheduleView::from(&put.record))
}

async fn delete(app: Arc<App>, call: Call) -> Answer {
    match app.client.delete_schedule(call.path("name")).await? {
        true => Ok(nothing()),
        false => Err(missing(&call)),
    }
}

async fn run(app: Arc<App>, call: Call) -> Answer {
    let wait = wait(&call)?;
    let enqueued = app.client.run_schedule(call.path("name")).await?;
    shown_job(&app, enqueued.ok_or_else(|| missing(&call))?, wait).await
}

async fn pause(app: Arc<App>, call: Call) -> Answer {
    shown_one(app.client.store().pause_schedule(call.path("name"), true).await?, &call)
}

async fn resume(app: Arc<App>, call: Call) -> Answer {
    shown_one(app.client.store().pause_schedule(call.path("name"), false).await?, &call)
}

fn shown_one(record: Option<ScheduleRecord>, call: &Call) -> Answer {
    ok(&ScheduleView::from(&record.ok_or_else(|| missing(call))?))
}

fn missing(call: &Call) -> Problem {
    Problem::not_found(format!("there is no schedule `{}`", shown(call.path("name"))))
}
