//! `queues list|pause|resume|set`.

use windlass_core::input::shown;
use windlass_core::scale::Bounds;
use windlass_core::store::{DEPTH_SHOWN, Live, QueueUpdate};
use windlass_core::{QueueId, QueueSpec, duration};
use windlass_engine::Client;
use windlass_http::view::{ListView, QueueView, measure};

use super::{ACTOR, Session};
use crate::args::{Queues, QueuesVerb};
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
        QueuesVerb::Set {
            name,
            concurrency,
            concurrency_min,
            concurrency_max,
            permits,
            depth_cap,
            global_concurrency,
            boost_after,
            json,
        } => {
            let update = QueueUpdate {
                concurrency,
                permits,
                depth_cap,
                global_concurrency,
                boost_after,
                actor: Some(ACTOR.to_owned()),
                ..QueueUpdate::default()
            };
            let bounds = (concurrency_min, concurrency_max);
            let client = session.writer().await?;
            let update = checked(&client, &name, update, bounds)?;
            change(session, &client, std::slice::from_ref(&name), update, json.json).await?;
            if let (Some(Live::Set(start)), false) = (concurrency, json.json) {
                tell_start(session, &client, &name, start).await?;
            }
            Ok(())
        }
    }
}

async fn pause(session: &Session, names: &[String], paused: bool, json: bool) -> Result<(), Failure> {
    let client = session.writer().await?;
    let actor = Some(ACTOR.to_owned());
    let update = QueueUpdate { paused: Some(paused), actor, ..QueueUpdate::default() };
    change(session, &client, names, update, json).await
}

type SaidBound = Live<Option<u32>>;

/// What depends on the queue as it is. One that is not there is found by [`change`].
fn checked(
    client: &Client,
    name: &str,
    update: QueueUpdate,
    (min, max): (Option<SaidBound>, Option<SaidBound>),
) -> Result<QueueUpdate, Failure> {
    let catalog = client.catalog();
    let Some(queue) = catalog.queue_named(name) else { return Ok(update) };
    let spec = &queue.spec;
    let refused = |why: String| Failure::new(format!("cannot change {}", spec.name), why);
    let wrong =
        |field, rule| Failure::usage(format!("cannot change {}", spec.name), format!("{field}: {rule}"));
    if update.permits.is_some() && spec.resource.is_none() {
        let hint = format!("set queues.{}.resource in the configuration; nothing was changed", spec.name);
        return Err(refused("it names no resource, so it has no permits".to_owned()).hint(hint));
    }
    let bounds = Bounds::change((spec.concurrency, spec.bounds), update.concurrency, min, max);
    let bounds = bounds.map_err(|(field, rule)| wrong(field, rule).hint("nothing was changed"))?;
    Ok(QueueUpdate { bounds, ..update })
}

/// Between bounds a concurrency is not what it seems.
async fn tell_start(session: &Session, client: &Client, name: &str, start: u32) -> Result<(), Failure> {
    let now = client.refresh().await.during("cannot read the registry")?;
    if let Some(Bounds { min, max }) = now.queue_named(name).and_then(|queue| queue.spec.bounds) {
        session.output.note(format_args!(
            "{start} is where each process starts; it moves by itself between {min} and {max} (--concurrency-min none ends that)"
        ));
    }
    Ok(())
}

/// Every name is looked up before the first queue is changed.
async fn change(
    session: &Session,
    client: &Client,
    names: &[String],
    update: QueueUpdate,
    json: bool,
) -> Result<(), Failure> {
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
    show(session, client, &ids, json).await
}

/// The queues in `only`, or all.
async fn show(session: &Session, client: &Client, only: &[QueueId], json: bool) -> Result<(), Failure> {
    let store = client.store().as_ref();
    let mut queues = store.queues().await.during("cannot list queues")?;
    queues.retain(|queue| only.is_empty() || only.contains(&queue.id));
    queues.sort_by_key(|queue| (queue.spec.priority, queue.id));
    let measured = measure(store).await.during("cannot read the statistics")?;
    if json {
        let view = |queue| QueueView::new(queue, measured.get(&queue.id));
        return session.output.json(&ListView::whole(queues.iter().map(view).collect()));
    }
    let titles = [
        "queue",
        ">waiting",
        ">running",
        ">at once",
        ">of all",
        ">scheduled",
        ">oldest",
        ">P95 (1 h)",
        ">SLA",
        ">cap",
        "",
    ];
    let mut table = Table::new(&titles);
    for queue in &queues {
        let p95 = measured.get(&queue.id).and_then(|measured| measured.p95);
        let late = p95.zip(queue.spec.sla).is_some_and(|(p95, sla)| p95 > sla);
        let notes = [(queue.paused, "paused"), (late, "SLA missed")];
        let notes: Vec<&str> = notes.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect();
        let dash = || "–".to_owned();
        table.row(vec![
            queue.spec.name.clone(),
            capped(queue.depth),
            queue.running.to_string(),
            at_once(&queue.spec),
            queue.spec.global_concurrency.map_or_else(dash, |most| most.to_string()),
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

fn at_once(spec: &QueueSpec) -> String {
    match spec.bounds {
        Some(bounds) => format!("{}–{}", bounds.min, bounds.max),
        None => spec.concurrency.to_string(),
    }
}

fn capped(count: u64) -> String {
    if count >= DEPTH_SHOWN { format!("{count}+") } else { count.to_string() }
}
