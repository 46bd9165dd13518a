//! `kinds list`: the registry as the database has it.

use windlass_core::duration;
use windlass_http::view::{KindView, ListView};

use super::Session;
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(crate) async fn list(session: &Session, json: bool) -> Result<(), Failure> {
    let client = session.client().await?;
    let mut kinds = client.store().kinds().await.during("cannot list kinds")?;
    kinds.sort_by(|a, b| a.2.name.cmp(&b.2.name));
    if json {
        let views = kinds.into_iter().map(|(_, _, kind)| KindView::from(kind));
        return session.output.json(&ListView::whole(views.collect()));
    }
    let mut table = Table::new(&["kind", "queue", ">attempts", ">timeout", ">first retry", "description"]);
    for (_, _, kind) in kinds {
        table.row(vec![
            kind.name,
            kind.queue,
            kind.max_attempts.to_string(),
            kind.timeout.map_or("none".to_owned(), duration::format),
            duration::format(kind.backoff.base),
            kind.description,
        ]);
    }
    table.print(&session.output)
}
