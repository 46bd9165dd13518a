//! `queues list|pause|resume|set`.

use windlass_core::input::shown;
use windlass_core::store::{DEPTH_SHOWN, QueueUpdate};
use windlass_core::{QueueId, duration};
use windlass_engine::Client;
use windlass_http::view::{ListView, QueueView, p95};

use super::Session;
use crate::args::{DepthCap, Queues, QueuesVerb};
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, args: Queues) -> Result<(), Failure> {
    match args.verb.unwrap_or(QueuesVerb::List(args.list)) {
        QueuesVerb::List(json) => {
            let client = session.client().await?;
            show(session, &client, &[], json.json).await
        }
        QueuesVerb::Pause(names) => pause(session, &names.names, true, names.json.json).await,
        QueuesVerb::Resume(names) => pause(session, &names.names, false, names.json.json).await,
        QueuesVerb::Set { name, concurrency, depth_cap, json } => {
            let depth_cap = depth_cap.map(|cap| match cap {
                DepthCap::Jobs(jobs) => Some(jobs),
                DepthCap::None => None,
            });
            let update = QueueUpdate { paused: None, concurrency, depth_cap };
            change(session, &[name], update, json.json).await
        }
    }
}

async fn pause(session: &Session, names: &[String], paused: bool, json: bool) -> Result<(), Failure> {
    change(session, names, QueueUpdate { paused: Some(paused), ..QueueUpdate::default() }, json).await
}

/// Every name is looked up before the first queue is changed.
async fn change(session: &Session, names: &[String], update: QueueUpdate, json: bool) -> Result<(), Failure> {
    let client = session.client().await?;
    let catalog = client.catalog();
    let mut ids = Vec::new();
    for name in names {
        let Some(queue) = catalog.queue_named(name) else {
            let known = catalog.queue_names().join(", ");
            return Err(Failure::new(
                format!("there is no queue `{}`", shown(name)),
                format!("known: {known}"),
            )
            .hint("nothing was changed"));
        };
        ids.push(queue.id);
    }
    for id in &ids {
        client.store().update_queue(*id, &update).await.during("cannot change the queue")?;
    }
    show(session, &client, &ids, json).await
}

/// The queues in `only`, or all.
async fn show(session: &Session, client: &Client, only: &[QueueId], json: bool) -> Result<(), Failure> {
    let store = client.store().as_ref();
    let mut queues = store.queues().await.during("cannot list queues")?;
    queues.retain(|queue| only.is_empty() || only.contains(&queue.id));
    queues.sort_by_key(|queue| (queue.spec.priority, queue.id));
    let p95 = p95(store).await.during("cannot read the statistics")?;
    if json {
        let view = |queue| QueueView::new(queue, p95.get(&queue.id).copied());
        return session.output.json(&ListView::whole(queues.iter().map(view).collect()));
    }
    let titles = [
        "queue",
        ">waiting",
        ">running",
        ">at once",
        ">scheduled",
        ">oldest",
        ">P95 (1 h)",
        ">SLA",
        ">cap",
        "",
    ];
    let mut table = Table::new(&titles);
    for queue in &queues {
        let p95 = p95.get(&queue.id).copied();
        let late = p95.zip(queue.spec.sla).is_some_and(|(p95, sla)| p95 > sla);
        let notes = [(queue.paused, "paused"), (late, "SLA missed")];
        let notes: Vec<&str> = notes.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect();
        let dash = || "–".to_owned();
        table.row(vec![
            queue.spec.name.clone(),
            capped(queue.depth),
            queue.running.to_string(),
            queue.spec.concurrency.to_string(),
            capped(queue.scheduled),
            queue.oldest.map_or_else(dash, duration::format),
            p95.map_or_else(dash, |p95| format!("≤ {}", duration::format(p95))),
            queue.spec.sla.map_or_else(dash, duration::format),
            queue.spec.depth_cap.map_or_else(dash, |cap| cap.to_string()),
            notes.join(", "),
        ]);
    }
    table.print(&session.output)
}

fn capped(count: u64) -> String {
    if count >= DEPTH_SHOWN { format!("{count}+") } else { count.to_string() }
}
