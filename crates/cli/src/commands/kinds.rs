//! `kinds list|set`: the registry as the database has it, and its limits changed live.

use windlass_core::input::shown;
use windlass_core::store::KindUpdate;
use windlass_core::{KindSpec, duration};
use windlass_http::view::{KindView, ListView};

use super::{ACTOR, Session};
use crate::args::{Kinds, KindsVerb};
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, args: Kinds) -> Result<(), Failure> {
    match args.verb.unwrap_or(KindsVerb::List(args.list)) {
        KindsVerb::List(json) => {
            let client = session.client().await?;
            let kinds = client.store().kinds().await.during("cannot list kinds")?;
            show(session, kinds.into_iter().map(|(_, _, kind)| kind).collect(), json.json)
        }
        KindsVerb::Set { name, rate, permits, key_concurrency, json } => {
            let update = KindUpdate { rate, permits, key_concurrency, actor: Some(ACTOR.to_owned()) };
            set(session, &name, &update, json.json).await
        }
    }
}

async fn set(session: &Session, name: &str, update: &KindUpdate, json: bool) -> Result<(), Failure> {
    let client = session.writer().await?;
    let catalog = client.catalog();
    let Some(kind) = catalog.kind_named(name) else {
        let known = catalog.kind_names().join(", ");
        let what = format!("there is no kind `{}`", shown(name));
        return Err(Failure::new(what, format!("known: {known}")).hint("nothing was changed"));
    };
    if update.permits.is_some() && kind.spec.resource.is_none() {
        return Err(Failure::new(format!("{name} has no permits"), "it names no resource")
            .hint(format!("set kinds.{name}.resource in the configuration; nothing was changed")));
    }
    client.store().update_kind(kind.id, update).await.during("cannot change the kind")?;
    let changed = client.refresh().await.during("cannot read the registry")?;
    show(session, changed.kind_named(name).map(|kind| kind.spec.clone()).into_iter().collect(), json)
}

fn show(session: &Session, mut kinds: Vec<KindSpec>, json: bool) -> Result<(), Failure> {
    kinds.sort_by(|a, b| a.name.cmp(&b.name));
    if json {
        return session.output.json(&ListView::whole(kinds.into_iter().map(KindView::from).collect()));
    }
    let titles = [
        "kind",
        "queue",
        ">attempts",
        ">timeout",
        ">first retry",
        ">per key",
        ">rate",
        "resource",
        "description",
    ];
    let mut table = Table::new(&titles);
    for kind in kinds {
        let dash = || "–".to_owned();
        let resource = kind.resource.map(|of| match of.permits {
            Some(permits) => format!("{} ({permits})", of.name),
            None => of.name,
        });
        table.row(vec![
            kind.name,
            kind.queue,
            kind.max_attempts.to_string(),
            kind.timeout.map_or("none".to_owned(), duration::format),
            duration::format(kind.backoff.base),
            kind.key_concurrency.to_string(),
            kind.rate.map_or_else(dash, |rate| rate.to_string()),
            resource.unwrap_or_else(dash),
            kind.description,
        ]);
    }
    table.print(&session.output)
}
