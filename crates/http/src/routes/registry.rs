//! The kinds with their limits, and the workers alive now.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::Value;
use windlass_core::KindSpec;
use windlass_engine::operate::KindPut;
use windlass_pack::{Answer, Call, Route, SMALL_BODY, Schemas, Scope, Shape, json, ok};

use super::{Table, route};
use crate::app::App;
use crate::view::{KindView, ListView, WorkerView};

pub(super) fn routes(app: &Table) -> Vec<Route> {
    vec![
        route(app, Method::GET, "/v1/kinds", "list_kinds", "The kinds of job this database knows", kinds)
            .needs(Scope::Read)
            .json::<ListView<KindView>>(200, "The kinds, by name"),
        route(
            app,
            Method::PUT,
            "/v1/kinds/{kind}",
            "put_kind",
            "Register a kind, or change its limits, live: every worker follows within seconds",
            put_kind,
        )
        .needs(Scope::Operate)
        .example(serde_json::json!({ "rate": "500/s" }))
        .path_example("kind", "NOOP")
        .path("kind", "Name of the kind")
        .body::<PutOf>(SMALL_BODY)
        .json::<KindView>(200, "The kind after the change; other values stay")
        .json::<KindView>(201, "It is new"),
        route(app, Method::GET, "/v1/workers", "list_workers", "The worker processes alive now", workers)
            .needs(Scope::Read)
            .json::<ListView<WorkerView>>(200, "The workers"),
    ]
}

async fn kinds(app: Arc<App>, _: Call) -> Answer {
    let kinds = app.client.kinds().await?;
    ok(&ListView::whole(kinds.into_iter().map(KindView::from).collect()))
}

struct PutOf;

impl Shape for PutOf {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("KindPut", "Values of a kind; at least one field. The text `configured` resets a value to the configured one.", |put| {
            put.optional::<String>("queue", "The queue of its jobs; permanent, and required for a new kind");
            put.limits::<KindSpec>();
        })
    }
}

async fn put_kind(app: Arc<App>, call: Call) -> Answer {
    let mut fields = call.object()?;
    let put = KindPut { queue: fields.text("queue"), limits: fields.limits::<KindSpec>() };
    let found = fields.end().err().unwrap_or_default();
    let (kind, new) = app.client.put_kind(call.path("kind"), &put, found, call.actor()).await?;
    json(if new { StatusCode::CREATED } else { StatusCode::OK }, &KindView::from(kind))
}

async fn workers(app: Arc<App>, _: Call) -> Answer {
    let workers = app.client.workers().await?;
    let catalog = app.client.catalog();
    ok(&ListView::whole(workers.iter().map(|worker| WorkerView::new(worker, &catalog)).collect()))
}
