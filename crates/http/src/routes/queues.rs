//! Queues with their statistics, and live changes by operators.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::QueueSpec;
use windlass_engine::operate::QueueChange;
use windlass_pack::{Answer, Call, Problem, Route, SMALL_BODY, Schemas, Scope, Shape, ok};

use super::{Table, route};
use crate::app::App;
use crate::view::{ListView, QueueView};

pub(super) fn routes(app: &Table) -> Vec<Route> {
    vec![
        route(
            app,
            Method::GET,
            "/v1/queues",
            "list_queues",
            "All queues with their statistics, most urgent first",
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
            change.limits::<QueueSpec>();
        })
    }
}

async fn change(app: Arc<App>, call: Call) -> Answer {
    let mut fields = call.object()?;
    let change = QueueChange { paused: fields.flag("paused"), limits: fields.limits::<QueueSpec>() };
    let found = fields.end().err().unwrap_or_default();
    let name = app.client.change_queue(call.path("name"), &change, found, call.actor()).await?;
    let views = app.stats.queue_views().await?;
    let gone = || Problem::not_found(format!("queue {name} is gone"));
    ok(&views.into_iter().find(|view| view.name == name).ok_or_else(gone)?)
}
