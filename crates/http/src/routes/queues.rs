//! Queues with their figures, and what an operator changes about them live.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::Invalid;
use windlass_core::input::shown;
use windlass_core::store::QueueUpdate;

use super::{jobs, route};
use crate::app::App;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Route, SMALL_BODY, ok};
use crate::shape::{Schemas, Shape};
use crate::view::{ListView, QueueView};

const MAX_CONCURRENCY: i64 = 10_000;

pub(super) fn routes(app: &Arc<App>) -> Vec<Route> {
    vec![
        route(
            app,
            Method::GET,
            "/v1/queues",
            "list_queues",
            "Every queue with its figures, most urgent first",
            list,
        )
        .json::<ListView<QueueView>>(200, "The queues"),
        route(
            app,
            Method::PATCH,
            "/v1/queues/{name}",
            "change_queue",
            "Pause, resume or resize a queue, live",
            change,
        )
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
        schemas.object("QueueChange", "What to change about a queue; at least one field.", |change| {
            change.optional::<bool>("paused", "No job of a paused queue is started");
            change.optional::<Concurrency>("concurrency", "Jobs one worker process runs at once");
        })
    }
}

struct Concurrency;

impl Shape for Concurrency {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "integer", "minimum": 1, "maximum": MAX_CONCURRENCY })
    }
}

async fn change(app: Arc<App>, call: Call) -> Answer {
    let mut fields = jobs::read(&call)?;
    let paused = fields.flag("paused");
    let concurrency = fields.integer("concurrency");
    if concurrency.is_some_and(|count| !(1..=MAX_CONCURRENCY).contains(&count)) {
        fields.refuse("concurrency", format!("must be 1 to {MAX_CONCURRENCY}"));
    }
    fields.end().map_err(Problem::invalid)?;
    if paused.is_none() && concurrency.is_none() {
        return Err(Problem::invalid(Invalid::one("body", "must change something: paused or concurrency")));
    }
    let catalog = app.client.refresh().await?;
    let known = || catalog.queue_names().join(", ");
    let missing = || {
        Problem::not_found(format!("there is no queue `{}`; known: {}", shown(call.path("name")), known()))
    };
    let queue = catalog.queue_named(call.path("name")).ok_or_else(missing)?;
    let concurrency = concurrency.and_then(|count| u32::try_from(count).ok());
    let update = QueueUpdate { paused, concurrency, depth_cap: None };
    if !app.client.store().update_queue(queue.id, &update).await? {
        return Err(missing());
    }
    let views = app.stats.queue_views().await?;
    let view = views.into_iter().find(|view| view.name == queue.spec.name);
    ok(&view.ok_or_else(missing)?)
}
