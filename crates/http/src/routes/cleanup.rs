//! Cleanup tasks: what each would remove, and running one.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use serde_json::json;
use windlass_core::duration;
use windlass_core::input::shown;
use windlass_pack::cleanup::{CleanupRun, CleanupTask};
use windlass_pack::shape::span;
use windlass_pack::{Answer, Call, Problem, Route, Scope, ok, shape};

use super::{Table, route};
use crate::app::App;
use crate::view::ListView;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "All cleanup tasks with the rows each would remove now";
    let list = route(app, Method::GET, "/v1/cleanup", "list_cleanup", about, list);
    let about = "Run a cleanup task, or only count its rows";
    let run = route(app, Method::POST, "/v1/cleanup/{task}", "run_cleanup", about, run);
    vec![
        list.needs(Scope::Read).json::<ListView<TaskView>>(200, "The tasks"),
        run.needs(Scope::Operate)
            .reports_all_mistakes()
            .path("task", "Name of the task")
            .path_example("task", "finished")
            .query("dry_run", "true: count, remove nothing", json!({ "type": "boolean", "default": false }))
            .query("older_than", "Overrides the configured age, such as 7d", span())
            .json::<TaskView>(200, "Rows removed, or that would be"),
    ]
}

shape! {
    /// A cleanup task and what it found.
    pub struct TaskView as "CleanupTask" {
        pub task: &'static str,
        pub description: &'static str,
        /// The age at which rows are removed.
        pub older_than: String,
        /// Rows removed, or on a dry run rows that would be. null if they could not be counted.
        pub rows: Option<u64>,
        pub dry_run: bool,
        /// Why the rows could not be counted.
        pub error: Option<String>,
    }
}

async fn list(app: Arc<App>, _: Call) -> Answer {
    let mut items = Vec::new();
    for task in &app.parts.cleanup {
        let run = CleanupRun { older_than: task.older_than, dry_run: true, actor: None };
        // A failing part must not hide the others.
        let counted = (task.remove)(run).await;
        let error = counted.as_ref().err().map(|error| error.detail().to_owned());
        items.push(view(task, task.older_than, counted.ok(), true, error));
    }
    ok(&ListView::whole(items))
}

async fn run(app: Arc<App>, call: Call) -> Answer {
    let mut invalid = call.wrong();
    let dry_run = match call.query("dry_run") {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            invalid.add("dry_run", format!("must be true or false, not `{}`", shown(other)));
            false
        }
    };
    let older_than = call.query("older_than").map(duration::parse).transpose();
    let older_than = older_than.unwrap_or_else(|error| {
        invalid.add("older_than", error.to_string());
        None
    });
    invalid.into_result().map_err(Problem::parameter)?;
    let name = call.path("task");
    let task = app.parts.cleanup.iter().find(|task| task.name == name).ok_or_else(|| {
        let known: Vec<&str> = app.parts.cleanup.iter().map(|task| task.name).collect();
        Problem::not_found(format!("there is no task `{}`; known: {}", shown(name), known.join(", ")))
    })?;
    let older_than = older_than.unwrap_or(task.older_than);
    let actor = (!dry_run).then(|| call.actor().clone());
    ok(&done(task, CleanupRun { older_than, dry_run, actor }).await?)
}

async fn done(task: &CleanupTask, run: CleanupRun) -> Result<TaskView, Problem> {
    let CleanupRun { older_than, dry_run, .. } = run;
    let rows = (task.remove)(run).await?;
    Ok(view(task, older_than, Some(rows), dry_run, None))
}

fn view(
    task: &CleanupTask,
    older_than: Duration,
    rows: Option<u64>,
    dry_run: bool,
    error: Option<String>,
) -> TaskView {
    let older_than = duration::format(older_than);
    TaskView { task: task.name, description: task.description, older_than, rows, dry_run, error }
}
