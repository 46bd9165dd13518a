//! Who and what there is: the kinds of job with their limits, and the workers alive now.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde_json::Value;
use windlass_core::input::shown;
use windlass_core::lane::MAX_KEY_CONCURRENCY;
use windlass_core::rate::BadRate;
use windlass_core::store::{KindUpdate, Live};
use windlass_core::{Invalid, KindSpec, Rate};

use super::queues::{Count, count};
use super::{ACTOR, Table, jobs, route};
use crate::app::App;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Route, SMALL_BODY, json, ok};
use crate::shape::{Schemas, Shape};
use crate::view::{KindView, ListView, WorkerView};

pub(super) fn routes(app: &Table) -> Vec<Route> {
    vec![
        route(app, Method::GET, "/v1/kinds", "list_kinds", "The kinds of job this database knows", kinds)
            .json::<ListView<KindView>>(200, "The kinds, by name"),
        route(
            app,
            Method::PUT,
            "/v1/kinds/{kind}",
            "put_kind",
            "Register a kind, or change its limits, live: every worker follows within seconds",
            put_kind,
        )
        .path("kind", "Name of the kind")
        .body::<KindPut>(SMALL_BODY)
        .json::<KindView>(200, "The kind after the change; what was not named stays")
        .json::<KindView>(201, "It is new"),
        route(app, Method::GET, "/v1/workers", "list_workers", "The worker processes alive now", workers)
            .json::<ListView<WorkerView>>(200, "The workers"),
    ]
}

async fn kinds(app: Arc<App>, _: Call) -> Answer {
    let kinds = app.client.store().kinds().await?;
    let mut views: Vec<KindView> = kinds.into_iter().map(|(_, _, kind)| KindView::from(kind)).collect();
    views.sort_by(|a, b| a.name.cmp(&b.name));
    ok(&ListView::whole(views))
}

struct KindPut;

impl Shape for KindPut {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("KindPut", "What to say about a kind; at least one field.", |put| {
            put.optional::<String>("queue", "Where its jobs wait, for good; a new kind needs it");
            put.optional::<RateText>(
                "rate",
                "Starts of all processes together, `none` for no bound, or `configured` to go back",
            );
            put.optional::<Count>("permits", "How many of the kind's resource one worker process has");
            put.optional::<Count>(
                "key_concurrency",
                "Jobs with one concurrency key at once, over all processes, or `configured` to go back",
            );
        })
    }
}

struct RateText;

impl Shape for RateText {
    fn schema(_: &mut Schemas) -> Value {
        serde_json::json!({ "type": "string", "pattern": "^([0-9]+/[smhd]|none|configured)$", "examples": ["500/s", "30/m", "none", "configured"] })
    }
}

fn rate(text: &str) -> Result<Live<Option<Rate>>, BadRate> {
    match text {
        "none" => Ok(Live::Set(None)),
        "configured" => Ok(Live::Configured),
        text => text.parse().map(|rate| Live::Set(Some(rate))),
    }
}

async fn put_kind(app: Arc<App>, call: Call) -> Answer {
    let mut fields = jobs::read(&call)?;
    let queue = fields.text("queue");
    let rate = fields.parsed("rate", rate);
    let permits = count(&mut fields, "permits");
    let key_concurrency = fields.live_count("key_concurrency", MAX_KEY_CONCURRENCY.into());
    let key_concurrency =
        key_concurrency.map(|live| live.map(|jobs| u16::try_from(jobs).unwrap_or(u16::MAX)));
    fields.end().map_err(Problem::invalid)?;
    let refused = |field: &str, rule: String| Problem::invalid(Invalid::one(field, rule));
    if queue.is_none() && rate.is_none() && permits.is_none() && key_concurrency.is_none() {
        return Err(refused(
            "body",
            "must say something: queue, rate, permits or key_concurrency".to_owned(),
        ));
    }
    let catalog = app.client.refresh().await?;
    let queue = match queue {
        Some(name) => Some(catalog.queue_named(&name).ok_or_else(|| {
            let known = catalog.queue_names().join(", ");
            refused("queue", format!("must be a queue that exists, not `{}`; known: {known}", shown(&name)))
        })?),
        None => None,
    };
    let name = call.path("kind");
    let known = catalog.kind_named(name);
    if let (Some(kind), Some(queue)) = (known, queue)
        && kind.spec.queue != queue.spec.name
    {
        let rule = format!("must be {}: a kind stays in its queue for good", kind.spec.queue);
        return Err(refused("queue", rule));
    }
    let resource = known.and_then(|kind| kind.spec.resource.as_ref());
    if permits.is_some() && resource.is_none() {
        let rule = "this kind has no resource; name one in the configuration (kinds.<KIND>.resource)";
        return Err(refused("permits", rule.to_owned()));
    }
    let missing = || {
        let known = catalog.kind_names().join(", ");
        let detail =
            format!("there is no kind `{}`; name its queue to register it; known: {known}", shown(name));
        Problem::not_found(detail)
    };
    if known.is_none() {
        register(&app, name, &queue.ok_or_else(missing)?.spec.name).await?;
    }
    let changed = app.client.refresh().await?;
    let kind = changed.kind_named(name).ok_or_else(missing)?;
    let update = KindUpdate { rate, permits, key_concurrency, actor: Some(ACTOR.to_owned()) };
    app.client.store().update_kind(kind.id, &update).await?;
    let now = app.client.refresh().await?;
    let view = KindView::from(now.kind_named(name).ok_or_else(missing)?.spec.clone());
    json(if known.is_some() { StatusCode::OK } else { StatusCode::CREATED }, &view)
}

async fn register(app: &App, name: &str, queue: &str) -> Result<(), Problem> {
    let mut invalid = Invalid::default();
    invalid.check_name("kind", name);
    if !invalid.problems.is_empty() {
        return Err(Problem::invalid(invalid));
    }
    app.client.store().sync_registry(&[], &[KindSpec::new(name, queue)]).await?;
    Ok(())
}

async fn workers(app: Arc<App>, _: Call) -> Answer {
    let workers = app.client.store().workers().await?;
    let catalog = app.client.catalog();
    ok(&ListView::whole(workers.iter().map(|worker| WorkerView::new(worker, &catalog)).collect()))
}
