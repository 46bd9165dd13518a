//! `workers list`: the workers in the database.

use serde_json::Value;
use windlass_core::duration;
use windlass_pack::api::ApiRequest;

use super::Session;
use super::jobs::now;
use crate::api::answer::{ask, items, list, number, text, texts, time};
use crate::failure::{During, Failure};
use crate::output::job::seconds;
use crate::output::table::Table;

pub(crate) async fn all(session: &Session, json: bool) -> Result<(), Failure> {
    let api = session.api().await?;
    let what = "cannot list workers";
    let answer = ask(api.as_ref(), ApiRequest::get("/v1/workers", &[])).await.during(what)?;
    if json {
        return answer.print(&session.output);
    }
    let workers = items(&answer.value);
    if workers.is_empty() {
        return session.output.line("no worker is alive; `windlass serve` starts one");
    }
    let now = now(api.as_ref(), what).await?;
    let mut table =
        Table::new(&["worker", "process", "queues", ">running", "permits in use", "started", ">last heard"]);
    for worker in workers {
        let heard = time(worker, "heartbeat_at").map(|at| format!("{} ago", duration::rough(now.since(at))));
        table.row(vec![
            text(worker, "id").to_owned(),
            text(worker, "label").to_owned(),
            slots(worker).join(", "),
            number(worker, "running").to_string(),
            permits(worker),
            time(worker, "started_at").map(seconds).unwrap_or_default(),
            heard.unwrap_or_default(),
        ]);
    }
    table.print(&session.output)
}

/// Each queue with its concurrency, if the worker has reported it.
fn slots(worker: &Value) -> Vec<String> {
    let reported = list(worker, "concurrency");
    let of = |name: String| match reported.iter().find(|slots| text(slots, "queue") == name) {
        Some(slots) => format!("{name} ({})", number(slots, "concurrency")),
        None => name,
    };
    texts(worker, "queues").into_iter().map(of).collect()
}

fn permits(worker: &Value) -> String {
    let each = list(worker, "resources").iter();
    let each =
        each.map(|of| format!("{} {}/{}", text(of, "resource"), number(of, "in_use"), number(of, "permits")));
    let all: Vec<String> = each.collect();
    if all.is_empty() { "–".to_owned() } else { all.join(", ") }
}
