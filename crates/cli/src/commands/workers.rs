//! `workers list`: the incarnations the database knows.

use serde::Serialize;
use windlass_core::duration;

use super::Session;
use crate::failure::{During, Failure};
use crate::output::job::{ListView, seconds};
use crate::output::table::Table;

#[derive(Serialize)]
struct WorkerView {
    id: String,
    label: String,
    queues: Vec<String>,
    started_at: String,
    heartbeat_at: String,
    running: u64,
}

pub(crate) async fn list(session: &Session, json: bool) -> Result<(), Failure> {
    let client = session.client().await?;
    let store = client.store();
    let workers = store.workers().await.during("cannot list workers")?;
    let now = store.now().await.during("cannot read the clock")?;
    let catalog = client.catalog();
    let names = |queues: &[windlass_core::QueueId]| -> Vec<String> {
        queues.iter().filter_map(|id| catalog.queue(*id)).map(|queue| queue.spec.name.clone()).collect()
    };
    if json {
        let items = workers
            .iter()
            .map(|worker| WorkerView {
                id: worker.id.to_string(),
                label: worker.label.clone(),
                queues: names(&worker.queues),
                started_at: worker.started_at.to_string(),
                heartbeat_at: worker.heartbeat_at.to_string(),
                running: worker.running,
            })
            .collect();
        return session.output.json(&ListView { items, next_cursor: None });
    }
    if workers.is_empty() {
        return session.output.line("no worker is alive; `windlass serve` starts one");
    }
    let mut table = Table::new(&["worker", "process", "queues", ">running", "started", ">last heard"]);
    for worker in &workers {
        table.row(vec![
            worker.id.to_string(),
            worker.label.clone(),
            names(&worker.queues).join(", "),
            worker.running.to_string(),
            seconds(worker.started_at),
            format!("{} ago", duration::format(now.since(worker.heartbeat_at))),
        ]);
    }
    table.print(&session.output)
}
