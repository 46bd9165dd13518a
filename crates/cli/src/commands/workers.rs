//! `workers list`: the incarnations the database knows.

use windlass_core::store::{ResourceUse, WorkerRow};
use windlass_core::{QueueId, duration};
use windlass_engine::Catalog;
use windlass_http::view::{ListView, WorkerView};

use super::Session;
use crate::failure::{During, Failure};
use crate::output::job::seconds;
use crate::output::table::Table;

pub(crate) async fn list(session: &Session, json: bool) -> Result<(), Failure> {
    let client = session.client().await?;
    let store = client.store();
    let workers = store.workers().await.during("cannot list workers")?;
    let now = store.now().await.during("cannot read the clock")?;
    let catalog = client.catalog();
    if json {
        let views = workers.iter().map(|worker| WorkerView::new(worker, &catalog));
        return session.output.json(&ListView::whole(views.collect()));
    }
    if workers.is_empty() {
        return session.output.line("no worker is alive; `windlass serve` starts one");
    }
    let mut table =
        Table::new(&["worker", "process", "queues", ">running", "permits in use", "started", ">last heard"]);
    for worker in &workers {
        table.row(vec![
            worker.id.to_string(),
            worker.label.clone(),
            slots(worker, &catalog).join(", "),
            worker.running.to_string(),
            permits(&worker.resources),
            seconds(worker.started_at),
            format!("{} ago", duration::format(now.since(worker.heartbeat_at))),
        ]);
    }
    table.print(&session.output)
}

/// Each queue with the jobs it runs at once, where the worker has said so.
fn slots(worker: &WorkerRow, catalog: &Catalog) -> Vec<String> {
    let of = |id: &QueueId| {
        let name = catalog.queue(*id)?.spec.name.clone();
        let said = worker.concurrency.iter().find(|(queue, _)| queue == id);
        Some(said.map_or(name.clone(), |(_, concurrency)| format!("{name} ({concurrency})")))
    };
    worker.queues.iter().filter_map(of).collect()
}

fn permits(resources: &[ResourceUse]) -> String {
    let each = resources.iter().map(|of| format!("{} {}/{}", of.resource, of.in_use, of.permits));
    let all: Vec<String> = each.collect();
    if all.is_empty() { "–".to_owned() } else { all.join(", ") }
}
