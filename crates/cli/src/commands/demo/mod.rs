//! `demo`: loads a sample catalogue, shows what search makes of it, then serves it.

mod catalogue;
mod load;
mod show;

use windlass_engine::{Client, tryout};
use windlass_index::Entities;

use super::Session;
use super::entities::indexing;
use super::serve::{Crew, Site};
use crate::args;
use crate::compose::Address;
use crate::config::Database;
use crate::failure::{During, Failure};
use crate::serving::Serving;

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
    client.set_budgets(&config.budgets).await.during("cannot register budgets")?;
    let site = match args.no_serve {
        true => None,
        false => Some(Site::open(session, client.clone(), &indexing).await?),
    };
    let _serving = site.as_ref().and_then(|_| Serving::begin(&config.server.data, &database.address));
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
    let said = show::next(session, &site);
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
    load::load(session, client, entities, database).await?;
    show::searches(session, entities).await?;
    show::price(session, entities).await?;
    show::deletion(session, entities).await
}
