//! `queues list|pause|resume|set`.

use serde_json::{Map, Value, json};
use windlass_core::limit::{Limit, LimitForm, LimitValue, Limited, LiveChanges, NONE};
use windlass_core::store::{CONFIGURED, Live};
use windlass_core::{QueueSpec, duration};
use windlass_pack::Method;
use windlass_pack::api::{Api, ApiRequest};

use super::Session;
use crate::api::answer::{ask, dash, figure, items, number, span, text};
use crate::api::exact;
use crate::args::{Queues, QueuesVerb};
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, args: Queues) -> Result<(), Failure> {
    let api = session.api().await?;
    match args.verb.unwrap_or(QueuesVerb::List(args.list)) {
        QueuesVerb::List(json) => {
            let answer =
                ask(api.as_ref(), ApiRequest::get("/v1/queues", &[])).await.during("cannot list queues")?;
            match json.json {
                true => answer.print(&session.output),
                false => table(session, items(&answer.value)),
            }
        }
        QueuesVerb::Pause(names) => pause(session, api.as_ref(), &names.names, true, names.json.json).await,
        QueuesVerb::Resume(names) => pause(session, api.as_ref(), &names.names, false, names.json.json).await,
        QueuesVerb::Set { name, limits, json } => {
            let queue = change_one(api.as_ref(), &name, &limits_json::<QueueSpec>(&limits.changes)).await?;
            if limits.changes.get("concurrency").is_some_and(|live| live.is_set()) && !json.json {
                tell_start(session, &queue);
            }
            show(session, vec![queue], json.json)
        }
    }
}

/// Limits in the routes' format.
pub(super) fn limits_json<S: Limited>(changes: &LiveChanges) -> Value {
    let field = |limit: &Limit| Some((limit.name.to_owned(), limit_json(limit, changes.get(limit.name)?)));
    Value::Object(S::limits().filter_map(field).collect::<Map<_, _>>())
}

fn limit_json(limit: &Limit, live: Live<Option<LimitValue>>) -> Value {
    match (live, limit.form) {
        (Live::Configured, _) => json!(CONFIGURED),
        (Live::Set(None), LimitForm::Number { .. }) => Value::Null,
        (Live::Set(None), LimitForm::Duration | LimitForm::Rate) => json!(NONE),
        (Live::Set(Some(LimitValue::Number(number))), _) => json!(number),
        (Live::Set(Some(LimitValue::Duration(duration))), _) => json!(exact(duration)),
        (Live::Set(Some(LimitValue::Rate(rate))), _) => json!(rate.to_string()),
    }
}

async fn change_one(api: &dyn Api, name: &str, change: &Value) -> Result<Value, Failure> {
    let request = ApiRequest::new(Method::PATCH, "/v1/queues/{name}", &[name]).json(change);
    api.call(request).await.during(format!("cannot change {name}")).map_err(Failure::unchanged)
}

async fn pause(
    session: &Session,
    api: &dyn Api,
    names: &[String],
    paused: bool,
    json: bool,
) -> Result<(), Failure> {
    let known = api.call(ApiRequest::get("/v1/queues", &[])).await.during("cannot list queues")?;
    let is_known =
        |name: &str| items(&known).iter().any(|queue| text(queue, "name").eq_ignore_ascii_case(name));
    // Unknown ones go first, so that they are refused before any other is changed.
    let mut order: Vec<&String> = names.iter().collect();
    order.sort_by_key(|name| is_known(name));
    let mut changed = Vec::new();
    for name in order {
        changed.push(change_one(api, name, &json!({ "paused": paused })).await?);
    }
    changed.sort_by_key(|queue| items(&known).iter().position(|known| known["name"] == queue["name"]));
    changed.dedup_by(|one, other| one["name"] == other["name"]);
    show(session, changed, json)
}

/// With bounds, the concurrency is only the starting value; says so.
fn tell_start(session: &Session, queue: &Value) {
    if let (Some(min), Some(max)) = (queue["concurrency_min"].as_u64(), queue["concurrency_max"].as_u64()) {
        session.output.note(format_args!(
            "{} is where each process starts; it moves by itself between {min} and {max} (--concurrency-min none ends that)",
            number(queue, "concurrency")
        ));
    }
}

fn show(session: &Session, queues: Vec<Value>, json: bool) -> Result<(), Failure> {
    match json {
        true => session.output.json(&json!({ "items": queues, "next_cursor": null })),
        false => table(session, &queues),
    }
}

fn table(session: &Session, queues: &[Value]) -> Result<(), Failure> {
    if queues.is_empty() {
        return session
            .output
            .line("no queues yet; `windlass serve` and `worker` register them when they start");
    }
    let titles = [
        "queue",
        ">waiting",
        ">running",
        ">at once",
        ">of all",
        ">scheduled",
        ">oldest",
        ">P95 (1 h)",
        ">SLA",
        ">cap",
        "",
    ];
    let mut table = Table::new(&titles);
    for queue in queues {
        let (p95, sla) = (span(queue, "p95_seconds"), span(queue, "sla_seconds"));
        let late = p95.zip(sla).is_some_and(|(p95, sla)| p95 > sla);
        let notes = [(queue["paused"] == true, "paused"), (late, "SLA missed")];
        let notes: Vec<&str> = notes.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect();
        table.row(vec![
            text(queue, "name").to_owned(),
            capped(queue, "depth"),
            number(queue, "running").to_string(),
            at_once(queue),
            figure(queue, "global_concurrency"),
            capped(queue, "scheduled"),
            span(queue, "oldest_age_seconds").map_or_else(dash, duration::rough),
            p95.map_or_else(dash, |p95| format!("≤ {}", duration::rough(p95))),
            sla.map_or_else(dash, duration::format),
            figure(queue, "depth_cap"),
            notes.join(", "),
        ]);
    }
    table.print(&session.output)
}

fn at_once(queue: &Value) -> String {
    match (queue["concurrency_min"].as_u64(), queue["concurrency_max"].as_u64()) {
        (Some(min), Some(max)) => format!("{min}–{max}"),
        _ => number(queue, "concurrency").to_string(),
    }
}

fn capped(queue: &Value, field: &str) -> String {
    match number(queue, field) {
        count if count >= windlass_core::store::DEPTH_SHOWN => format!("{count}+"),
        count => count.to_string(),
    }
}
