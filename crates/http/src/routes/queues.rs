//! Queues with their figures, and what an operator changes about them live.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::queue::{BadBoost, MAX_GLOBAL_CONCURRENCY, parse_boost};
use windlass_core::store::Live;
use windlass_engine::operate::QueueChange;
use windlass_pack::fields::{BACK, Fields};
use windlass_pack::{Answer, Call, Problem, Route, SMALL_BODY, Schemas, Scope, Shape, ok};

use super::{Table, route};
use crate::app::App;
use crate::view::{ListView, QueueView};

const MAX_COUNT: u32 = 10_000;
const MAX_DEPTH: u32 = 1_000_000_000;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    vec![
        route(
            app,
            Method::GET,
            "/v1/queues",
            "list_queues",
            "Every queue with its figures, most urgent first",
            list,
        )
        .needs(Scope::Read)
        .json::<ListView<QueueView>>(200, "The queues"),
        route(
            app,
            Method::PATCH,
            "/v1/queues/{name}",
            "change_queue",
            "Pause, resume or resize a queue, live: every worker follows within seconds",
            change,
        )
        .needs(Scope::Operate)
        .example(json!({ "paused": true }))
        .path_example("name", "LOW")
        .path("name", "Name of the queue, in any case")
        .body::<ChangeOf>(SMALL_BODY)
        .json::<QueueView>(200, "The queue after the change"),
    ]
}

async fn list(app: Arc<App>, _: Call) -> Answer {
    ok(&ListView::whole(app.stats.queue_views().await?))
}

struct ChangeOf;

impl Shape for ChangeOf {
    fn schema(schemas: &mut Schemas) -> Value {
        let what = "What to change about a queue; at least one field. The text `configured` instead of a number goes back to \
                    what the configuration says.";
        schemas.object("QueueChange", what, |change| {
            change.optional::<bool>("paused", "No job of a paused queue is started");
            change.optional::<Count>(
                "concurrency",
                "Jobs one worker process runs at once; with bounds, where it starts, which has to be between them",
            );
            change.optional::<Bound<MAX_COUNT>>(
                "concurrency_min",
                "Each worker moves its concurrency between this and the next; the same number twice fixes it, null \
                 removes both",
            );
            change.optional::<Bound<MAX_COUNT>>("concurrency_max", "The upper one; one that is not given stays");
            change.optional::<Bound<MAX_GLOBAL_CONCURRENCY>>(
                "global_concurrency",
                "Jobs all worker processes together run at once; null lifts it",
            );
            change.optional::<Count>("permits", "How many of the queue's resource one worker process has");
            change.optional::<Bound<MAX_DEPTH>>(
                "depth_cap",
                "Waiting jobs above which enqueues are refused; null lifts it",
            );
            change.optional::<BoostAfter>(
                "boost_after",
                "Jobs due for longer get a quarter of the slots whatever their priority: a duration, or none; null goes back \
                 to the configuration's value",
            );
        })
    }
}

struct Bound<const MOST: u32>;

impl<const MOST: u32> Shape for Bound<MOST> {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": ["integer", "null", "string"], "minimum": 1, "maximum": MOST, "pattern": "^configured$" })
    }
}

struct BoostAfter;

impl Shape for BoostAfter {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": ["string", "null"], "examples": ["90s", "PT10M", "none", "configured"] })
    }
}

fn boost_after(fields: &mut Fields<'_>) -> Option<Live<Option<Duration>>> {
    const NAME: &str = "boost_after";
    let text = fields.raw(NAME)?.get();
    let boost = match text {
        "null" | BACK => Some(Live::Configured),
        text => {
            serde_json::from_str::<String>(text).ok().and_then(|text| parse_boost(&text).ok()).map(Live::Set)
        }
    };
    if boost.is_none() {
        fields.refuse(NAME, format!("{BadBoost}, or null or {BACK} for the configuration's value"));
    }
    boost
}

/// Of slots or permits.
pub(super) struct Count;

impl Shape for Count {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": ["integer", "string"], "minimum": 1, "maximum": MAX_COUNT, "pattern": "^configured$" })
    }
}

pub(super) fn count(fields: &mut Fields<'_>, name: &'static str) -> Option<Live<u32>> {
    fields.live_count(name, MAX_COUNT)
}

async fn change(app: Arc<App>, call: Call) -> Answer {
    let mut fields = call.object()?;
    let change = QueueChange {
        paused: fields.flag("paused"),
        concurrency: count(&mut fields, "concurrency"),
        concurrency_min: fields.live_bound("concurrency_min", MAX_COUNT),
        concurrency_max: fields.live_bound("concurrency_max", MAX_COUNT),
        global_concurrency: fields.live_bound("global_concurrency", MAX_GLOBAL_CONCURRENCY),
        permits: count(&mut fields, "permits"),
        depth_cap: fields.live_bound("depth_cap", MAX_DEPTH),
        boost_after: boost_after(&mut fields),
    };
    let found = fields.end().err().unwrap_or_default();
    let name = app.client.change_queue(call.path("name"), &change, found, call.actor()).await?;
    let views = app.stats.queue_views().await?;
    let gone = || Problem::not_found(format!("queue {name} is gone"));
    ok(&views.into_iter().find(|view| view.name == name).ok_or_else(gone)?)
}
