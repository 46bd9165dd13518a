//! `demo`: loads a sample catalogue, runs some searches, then serves it.

mod catalogue;
mod failure;
mod load;
mod show;

use windlass_engine::Client;
use windlass_index::Entities;
use windlass_pack::service::Process;

use super::Session;
use super::serve::{self, Crew, Site};
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
    let (client, mut assembly) = serve::open(session, &database, true, true).await?;
    let site = match args.no_serve {
        true => None,
        false => Some(Site::open(session, client.clone(), &mut assembly).await?),
    };
    let _serving = site.as_ref().and_then(|_| Serving::begin(&config.server.data, &database.address));
    let entities = session.parts.index().entities();
    let entities = entities.ok_or_else(|| Failure::new("cannot start", "the index is not open"))?;
    for spec in catalogue::types() {
        entities.put_type(spec, None).await.during("cannot register the types of the catalogue")?;
    }
    let mut crew = Crew::start(session, client.clone(), &assembly, Vec::new(), Process::Server).await?;
    let shown = tokio::select! {
        shown = all(session, &client, &entities, &database) => shown,
        failure = crew.disturbed() => Err(failure),
    };
    if let Err(failure) = shown {
        return crew.stop_after(failure).await;
    }
    let Some(site) = site else { return crew.stop().await };
    let shown = show::next(session, &site);
    let crew = crew.with(site);
    match shown {
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
