//! `demo`: loads a sample catalogue, shows what search makes of it, then serves it.

mod catalogue;
mod show;

use std::time::{Duration, Instant};

use windlass_core::Store;
use windlass_engine::{Client, tryout};
use windlass_index::Entities;

use super::Session;
use super::entities::indexing;
use super::serve::{Crew, Site};
use crate::args;
use crate::compose::Address;
use crate::config::Database;
use crate::failure::{During, Failure};
use crate::output::progress::Progress;
use crate::output::taken;

const LOOK: Duration = Duration::from_millis(10);
/// Without an end in sight for this long, something outside the demo holds the boxes up.
const STALLED: Duration = Duration::from_secs(20);

pub(crate) async fn run(session: &Session, args: &args::Demo) -> Result<(), Failure> {
    let config = &session.config;
    let mut database = config.database.clone();
    if database.is_default {
        database.address = Address::Sqlite(config.server.data.join("demo.db"));
    }
    let store = session.ready(&database, true).await?;
    let indexing = indexing()?;
    let mut handlers = windlass_engine::Handlers::default();
    tryout::add(&mut handlers, false);
    indexing.add_to(&mut handlers);
    let kinds = config.kinds.apply(handlers.specs());
    let client = Client::open(store, &config.queues, &kinds).await.during("cannot start")?;
    let site = match args.no_serve {
        true => None,
        false => Some(Site::open(session, client.clone(), &indexing).await?),
    };
    let entities = Entities::open(client.clone(), &indexing, &catalogue::types()).await;
    let entities = entities.during("cannot open the index")?;
    let mut crew = Crew::start(session, client.clone(), handlers, Vec::new()).await?;
    let shown = tokio::select! {
        shown = all(session, &client, &entities, &database) => shown,
        failure = crew.disturbed() => Err(failure),
    };
    if let Err(failure) = shown {
        return crew.stop_after(failure).await;
    }
    let Some(site) = site else { return crew.stop().await };
    let said = show::next(session, site.address(), &database);
    let crew = crew.with(site);
    match said {
        Ok(()) => crew.until_stopped(session).await,
        Err(failure) => crew.stop_after(failure).await,
    }
}

async fn all(
    session: &Session,
    client: &Client,
    entities: &Entities,
    database: &Database,
) -> Result<(), Failure> {
    load(session, client, entities, database).await?;
    show::searches(session, entities).await?;
    show::price(session, entities).await?;
    show::deletion(session, entities).await
}

/// Saves the catalogue and waits until all of it can be found by meaning.
async fn load(
    session: &Session,
    client: &Client,
    entities: &Entities,
    database: &Database,
) -> Result<(), Failure> {
    let output = &session.output;
    let sample = catalogue::read().map_err(|error| Failure::new("the sample catalogue is broken", error))?;
    let total = sample.len() as u64;
    output.line(format_args!(
        "A shop's catalogue: {} into {}",
        catalogue::counts(&sample),
        database.address
    ))?;
    let begun = Instant::now();
    for saved in entities.save_many(sample).await.during("cannot save the catalogue")? {
        saved.during("cannot save the catalogue")?;
    }
    let saved = begun.elapsed();
    until_indexed(session, client.store().as_ref(), total).await?;
    output.line(format_args!(
        "saved in {}, searchable by meaning after {}",
        taken(saved),
        taken(begun.elapsed())
    ))
}

async fn until_indexed(session: &Session, store: &dyn Store, total: u64) -> Result<(), Failure> {
    let mut progress = Progress::new(session.output, "indexed", total);
    let (mut last, mut moved) = (u64::MAX, Instant::now());
    loop {
        let left = store.pending_entities(u64::MAX).await.during("cannot count what is pending")?;
        progress.set(total.saturating_sub(left));
        if left == 0 {
            progress.finish(total);
            return Ok(());
        }
        if left != last {
            (last, moved) = (left, Instant::now());
        }
        if moved.elapsed() > STALLED {
            return Err(Failure::new("the catalogue is stuck", format!("{left} entities stay pending"))
                .hint("`windlass queues` shows whether a queue is paused"));
        }
        tokio::time::sleep(LOOK).await;
    }
}
