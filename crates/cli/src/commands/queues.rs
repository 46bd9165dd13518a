//! `queues list|pause|resume|set`.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use windlass_core::input::shown;
use windlass_core::store::{DEPTH_SHOWN, LATENCY_BUCKETS, QueueState, QueueUpdate, latency_quantile};
use windlass_core::{QueueId, Store, duration};
use windlass_engine::Client;

use super::Session;
use crate::args::{DepthCap, Queues, QueuesVerb};
use crate::failure::{During, Failure};
use crate::output::job::ListView;
use crate::output::table::Table;

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Serialize)]
struct QueueView {
    name: String,
    priority: u8,
    paused: bool,
    concurrency: u32,
    cadence_seconds: f64,
    depth: u64,
    /// The depth is at least this; no big table is counted.
    depth_is_capped: bool,
    running: u64,
    scheduled: u64,
    oldest_age_seconds: Option<f64>,
    p95_seconds: Option<f64>,
    sla_seconds: Option<f64>,
    depth_cap: Option<u64>,
    owner: String,
}

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
    let p95 = p95(store).await?;
    if json {
        let items = queues.iter().map(|queue| view(queue, p95.get(&queue.id).copied())).collect();
        return session.output.json(&ListView { items, next_cursor: None });
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

/// Due-to-finished of the last hour, from the minutes the workers counted; an upper bound of the bucket.
async fn p95(store: &dyn Store) -> Result<HashMap<QueueId, Duration>, Failure> {
    let now = store.now().await.during("cannot read the clock")?;
    let rollups = store.rollups(now.minus(HOUR)).await.during("cannot read the statistics")?;
    let mut counts: HashMap<QueueId, Vec<u64>> = HashMap::new();
    for rollup in rollups {
        let buckets = counts.entry(rollup.queue).or_insert_with(|| vec![0; LATENCY_BUCKETS]);
        for (bucket, count) in buckets.iter_mut().zip(rollup.latency) {
            *bucket += u64::from(count);
        }
    }
    Ok(counts
        .into_iter()
        .filter_map(|(queue, counts)| Some((queue, latency_quantile(&counts, 0.95)?)))
        .collect())
}

fn view(queue: &QueueState, p95: Option<Duration>) -> QueueView {
    let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64());
    QueueView {
        name: queue.spec.name.clone(),
        priority: queue.spec.priority,
        paused: queue.paused,
        concurrency: queue.spec.concurrency,
        cadence_seconds: queue.spec.cadence.as_secs_f64(),
        depth: queue.depth,
        depth_is_capped: queue.depth >= DEPTH_SHOWN,
        running: queue.running,
        scheduled: queue.scheduled,
        oldest_age_seconds: seconds(queue.oldest),
        p95_seconds: seconds(p95),
        sla_seconds: seconds(queue.spec.sla),
        depth_cap: queue.spec.depth_cap,
        owner: queue.spec.owner.clone(),
    }
}
