//! `workers list`: the incarnations the database knows.

use windlass_core::duration;
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
    let names = |queues: &[windlass_core::QueueId]| -> Vec<String> {
        queues.iter().filter_map(|id| catalog.queue(*id)).map(|queue| queue.spec.name.clone()).collect()
    };
    if json {
        let views = workers.iter().map(|worker| WorkerView::new(worker, &catalog));
        return session.output.json(&ListView::whole(views.collect()));
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
