//! The first half of the demo: saves the missing part of the catalogue and waits until it is searchable by meaning.

use std::time::{Duration, Instant};

use windlass_core::Store;
use windlass_core::entity::{Change, IndexState};
use windlass_engine::Client;
use windlass_index::{Entities, EntityError, SaveRequest};

use super::catalogue;
use crate::commands::Session;
use crate::config::Database;
use crate::failure::{During, Failure};
use crate::output::progress::Progress;
use crate::output::taken;

const LOOK: Duration = Duration::from_millis(10);
/// Without progress for this long, something outside the demo blocks the boxes.
const STALLED: Duration = Duration::from_secs(20);

pub(super) async fn load(
    session: &Session,
    client: &Client,
    entities: &Entities,
    database: &Database,
) -> Result<(), Failure> {
    let output = &session.output;
    let what = "cannot save the catalogue";
    let sample = catalogue::read().map_err(|error| Failure::new("the sample catalogue is broken", error))?;
    let all = sample.len();
    output.line(format_args!(
        "A shop's catalogue: {}\nin {}",
        catalogue::counts(&sample),
        database.address
    ))?;
    let missing = without_known(entities, sample).await.during("cannot read what is there")?;
    let (begun, new) = (Instant::now(), missing.len());
    let mut embedded = 0;
    for saved in entities.save_many(missing).await.during(what)? {
        embedded += u64::from(saved.during(what)?.state == IndexState::Pending);
    }
    let saved = begun.elapsed();
    until_indexed(session, client.store().as_ref(), embedded).await?;
    if new < all {
        output.line(format_args!("{} of {all} existed already, unchanged", all - new))?;
    }
    if new > 0 {
        output.line(format_args!("{new} saved in {}", taken(saved)))?;
    }
    match embedded {
        0 => output.line("nothing had to be embedded"),
        _ => output.line(format_args!(
            "{embedded} embedded, searchable by meaning {} after the first was sent",
            taken(begun.elapsed())
        )),
    }
}

/// Entities that exist unchanged are not written again.
async fn without_known(
    entities: &Entities,
    sample: Vec<SaveRequest>,
) -> Result<Vec<SaveRequest>, EntityError> {
    let mut missing = Vec::new();
    for request in sample {
        let id = request.id.as_deref().unwrap_or_default();
        let there = match entities.get(&request.entity_type, id).await {
            Ok(row) => row.fields,
            Err(EntityError::Missing { .. }) => None,
            Err(error) => return Err(error),
        };
        let same = matches!((&request.change, &there), (Change::Put(new), Some(old)) if new == old);
        if !same {
            missing.push(request);
        }
    }
    Ok(missing)
}

/// `embedded` boxes are ours; an interrupted demo may have left others.
async fn until_indexed(session: &Session, store: &dyn Store, embedded: u64) -> Result<(), Failure> {
    let what = "cannot count what is pending";
    let total = store.pending_entities(u64::MAX).await.during(what)?.max(embedded);
    if total == 0 {
        return Ok(());
    }
    let mut progress = Progress::new(session.output, "embedded", total);
    let (mut last, mut moved) = (u64::MAX, Instant::now());
    loop {
        let left = store.pending_entities(u64::MAX).await.during(what)?;
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
