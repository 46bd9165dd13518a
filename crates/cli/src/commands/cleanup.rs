//! `cleanup list|run`: what retention removes, on request and with a look first.

use std::time::Duration;

use serde::Serialize;
use windlass_core::duration;
use windlass_core::input::shown;
use windlass_engine::RetentionTask;
use windlass_http::view::ListView;

use super::Session;
use crate::args::{Cleanup, CleanupVerb};
use crate::failure::{During, Failure};
use crate::output::table::Table;

#[derive(Serialize)]
struct TaskView {
    task: &'static str,
    description: &'static str,
    older_than: String,
    /// Removed, or on a dry run what would be.
    rows: u64,
    dry_run: bool,
}

pub(crate) async fn run(session: &Session, args: Cleanup) -> Result<(), Failure> {
    let tasks = session.config.retention.tasks();
    match args.verb.unwrap_or(CleanupVerb::List(args.list)) {
        CleanupVerb::List(json) => work(session, &tasks, None, true, json.json).await,
        CleanupVerb::Run { task, dry_run, older_than, json } => {
            let wanted: Vec<RetentionTask> = match &task {
                None => tasks.to_vec(),
                Some(name) => tasks.into_iter().filter(|task| task.name == name).collect(),
            };
            if let (true, Some(name)) = (wanted.is_empty(), &task) {
                let known = session.config.retention.tasks().map(|task| task.name).join(", ");
                return Err(Failure::usage(
                    format!("there is no task `{}`", shown(name)),
                    format!("known: {known}"),
                )
                .hint("nothing was removed; `windlass cleanup` shows what each would do"));
            }
            work(session, &wanted, older_than, dry_run, json.json).await
        }
    }
}

async fn work(
    session: &Session,
    tasks: &[RetentionTask],
    older_than: Option<Duration>,
    dry_run: bool,
    json: bool,
) -> Result<(), Failure> {
    let store = session.existing().await?;
    let mut items = Vec::new();
    for task in tasks {
        let rows = task.run(store.as_ref(), older_than, dry_run).await;
        let rows = rows.during(format!("cannot clean up {}", task.name))?;
        let older_than = duration::format(older_than.unwrap_or(task.older_than));
        items.push(TaskView { task: task.name, description: task.description, older_than, rows, dry_run });
    }
    if json {
        return session.output.json(&ListView { items, next_cursor: None });
    }
    let mut table =
        Table::new(&["task", "older than", if dry_run { ">would remove" } else { ">removed" }, "what"]);
    for item in items {
        table.row(vec![
            item.task.to_owned(),
            item.older_than,
            item.rows.to_string(),
            item.description.to_owned(),
        ]);
    }
    table.print(&session.output)
}
