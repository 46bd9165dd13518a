//! `cleanup list|run`: removes data past its retention time.

use serde_json::{Value, json};
use windlass_pack::api::ApiRequest;

use super::Session;
use crate::api::answer::{dash, items, text};
use crate::api::exact;
use crate::args::{Cleanup, CleanupVerb};
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, args: Cleanup) -> Result<(), Failure> {
    let api = session.api().await?;
    match args.verb.unwrap_or(CleanupVerb::List(args.list)) {
        CleanupVerb::List(json) => {
            let answer =
                api.call(ApiRequest::get("/v1/cleanup", &[])).await.during("cannot list the tasks")?;
            show(session, &answer, json.json)
        }
        CleanupVerb::Run { task, dry_run, older_than, json } => {
            let tasks = match task {
                Some(task) => vec![task],
                None => {
                    let known = api.call(ApiRequest::get("/v1/cleanup", &[])).await;
                    let known = known.during("cannot list the tasks")?;
                    items(&known).iter().map(|task| text(task, "task").to_owned()).collect()
                }
            };
            let mut done = Vec::new();
            for task in tasks {
                let request = ApiRequest::post("/v1/cleanup/{task}", &[&task])
                    .query("dry_run", Some(dry_run))
                    .query("older_than", older_than.map(exact));
                done.push(api.call(request).await.during(format!("cannot clean up {task}"))?);
            }
            show(session, &json!({ "items": done, "next_cursor": null }), json.json)
        }
    }
}

fn show(session: &Session, answer: &Value, json: bool) -> Result<(), Failure> {
    if json {
        return session.output.json(answer);
    }
    let removed = items(answer).iter().any(|item| item["dry_run"] == false);
    let title = if removed { ">removed" } else { ">would remove" };
    let mut table = Table::new(&["task", "older than", title, "what"]);
    for item in items(answer) {
        table.row(vec![
            text(item, "task").to_owned(),
            text(item, "older_than").to_owned(),
            item["rows"].as_u64().map_or_else(dash, |rows| rows.to_string()),
            match item["error"].as_str() {
                Some(error) => format!("{}; cannot be counted: {error}", text(item, "description")),
                None => text(item, "description").to_owned(),
            },
        ]);
    }
    table.print(&session.output)
}
