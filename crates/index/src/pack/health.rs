//! Health check of the index: indexing jobs that failed or have waited too long.

use windlass_core::store::{DEAD_SHOWN, QueueState};
use windlass_core::{StoreError, duration};
use windlass_pack::Registry;
use windlass_pack::health::Finding;

use super::IndexContext;
use crate::service::{ASYNC_KIND, BATCH_KIND};

const NAME: &str = "index";

pub(super) fn register(context: &IndexContext, registry: &mut Registry) {
    let context = context.clone();
    registry.check(NAME, move || {
        let context = context.clone();
        async move { look(&context).await.map_err(|error| error.chain()) }
    });
}

async fn look(context: &IndexContext) -> Result<Vec<Finding>, StoreError> {
    let store = context.client()?.store();
    let queues = store.queues().await?;
    let ours = |queue: &&QueueState| [ASYNC_KIND, BATCH_KIND].contains(&queue.spec.name.as_str());
    let boxes: Vec<&QueueState> = queues.iter().filter(ours).collect();
    let dead = store.dead_letters(DEAD_SHOWN).await?;
    let failed: u64 = dead
        .iter()
        .filter(|count| boxes.iter().any(|queue| queue.id == count.queue))
        .map(|count| count.failed + count.dead_letter)
        .sum();
    let mut findings = Vec::new();
    if failed > 0 {
        let what =
            format!("{failed} entities could not be embedded; they are found by words, not by meaning");
        let remedy =
            "`windlass dead-letters --queue INDEX_ASYNC` says why; `dead-letters replay` tries again";
        findings.push(Finding::warning(NAME, what, remedy));
    }
    for queue in &boxes {
        if let (Some(oldest), Some(sla)) = (queue.oldest, queue.spec.sla)
            && oldest > sla
        {
            let (name, waits) = (&queue.spec.name, duration::rough(oldest));
            let what = format!("the index is behind: {} wait in {name}, the oldest for {waits}", queue.depth);
            let remedy = "start a worker with `windlass serve`, or raise the concurrency of that queue";
            findings.push(Finding::warning(NAME, what, remedy));
        }
    }
    if findings.is_empty() {
        let waiting: u64 = boxes.iter().map(|queue| queue.depth + queue.running).sum();
        findings.push(Finding::ok(NAME, format!("{waiting} entities wait for their embedding")));
    }
    Ok(findings)
}
