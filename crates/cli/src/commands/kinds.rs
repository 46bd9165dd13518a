//! `kinds list|set`: kinds in the database, and live changes of their limits.

use serde_json::{Value, json};
use windlass_core::{KindSpec, duration};
use windlass_pack::Method;
use windlass_pack::api::ApiRequest;

use super::Session;
use super::queues::limits_json;
use crate::api::answer::{ask, dash, items, number, span, text};
use crate::args::{Kinds, KindsVerb};
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, args: Kinds) -> Result<(), Failure> {
    let api = session.api().await?;
    match args.verb.unwrap_or(KindsVerb::List(args.list)) {
        KindsVerb::List(json) => {
            let answer =
                ask(api.as_ref(), ApiRequest::get("/v1/kinds", &[])).await.during("cannot list kinds")?;
            match json.json {
                true => answer.print(&session.output),
                false => table(session, items(&answer.value)),
            }
        }
        KindsVerb::Set { name, limits, json } => {
            let change = limits_json::<KindSpec>(&limits.changes);
            let request = ApiRequest::new(Method::PUT, "/v1/kinds/{kind}", &[&name]).json(&change);
            let changed = api.call(request).await.during(format!("cannot change {name}"));
            let kind = changed.map_err(Failure::unchanged)?;
            match json.json {
                true => session.output.json(&json!({ "items": [kind], "next_cursor": null })),
                false => table(session, &[kind]),
            }
        }
    }
}

fn table(session: &Session, kinds: &[Value]) -> Result<(), Failure> {
    if kinds.is_empty() {
        return session
            .output
            .line("no kinds yet; `windlass serve` and `worker` register them when they start");
    }
    let titles = [
        "kind",
        "queue",
        ">attempts",
        ">timeout",
        ">first retry",
        ">per key",
        ">rate",
        "resource",
        "description",
    ];
    let mut table = Table::new(&titles);
    for kind in kinds {
        let resource = kind["resource"].as_str().map(|name| match kind["permits"].as_u64() {
            Some(permits) => format!("{name} ({permits})"),
            None => name.to_owned(),
        });
        table.row(vec![
            text(kind, "name").to_owned(),
            text(kind, "queue").to_owned(),
            number(kind, "max_attempts").to_string(),
            span(kind, "timeout_seconds").map_or("none".to_owned(), duration::format),
            span(kind, "backoff_base_seconds").map_or_else(dash, duration::format),
            number(kind, "key_concurrency").to_string(),
            kind["rate"].as_str().map_or_else(dash, str::to_owned),
            resource.unwrap_or_else(dash),
            text(kind, "description").to_owned(),
        ]);
    }
    table.print(&session.output)
}
