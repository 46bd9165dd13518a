//! `kinds list`: the registry as the database has it.

use serde::Serialize;
use windlass_core::duration;

use super::Session;
use crate::failure::{During, Failure};
use crate::output::job::ListView;
use crate::output::table::Table;

#[derive(Serialize)]
struct KindView {
    name: String,
    queue: String,
    priority: Option<u8>,
    max_attempts: u16,
    timeout_seconds: Option<f64>,
    backoff_base_seconds: f64,
    backoff_cap_seconds: f64,
    description: String,
}

pub(crate) async fn list(session: &Session, json: bool) -> Result<(), Failure> {
    let client = session.client().await?;
    let mut kinds = client.store().kinds().await.during("cannot list kinds")?;
    kinds.sort_by(|a, b| a.2.name.cmp(&b.2.name));
    if json {
        let view = |(_, _, kind): (_, _, windlass_core::KindSpec)| KindView {
            name: kind.name,
            queue: kind.queue,
            priority: kind.priority,
            max_attempts: kind.max_attempts,
            timeout_seconds: kind.timeout.map(|timeout| timeout.as_secs_f64()),
            backoff_base_seconds: kind.backoff.base.as_secs_f64(),
            backoff_cap_seconds: kind.backoff.cap.as_secs_f64(),
            description: kind.description,
        };
        return session
            .output
            .json(&ListView { items: kinds.into_iter().map(view).collect(), next_cursor: None });
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
