//! What a verb registers before its first change in this process. Read-only verbs register nothing.

use std::sync::Arc;

use tokio::sync::OnceCell;
use windlass_core::{BudgetSpec, KindSpec, QueueSpec};
use windlass_engine::{Client, EngineError};
use windlass_http::Preparation;
use windlass_pack::Problem;

/// What this binary and its configuration define.
pub(super) struct Known {
    pub(super) client: Client,
    pub(super) queues: Vec<QueueSpec>,
    pub(super) kinds: Vec<KindSpec>,
    pub(super) budgets: Vec<BudgetSpec>,
}

/// Registers once, however many changes follow.
pub(super) fn before_changes(known: Known) -> Preparation {
    let (known, done) = (Arc::new(known), Arc::new(OnceCell::new()));
    Arc::new(move || {
        let (known, done) = (known.clone(), done.clone());
        Box::pin(async move {
            done.get_or_try_init(|| register(&known)).await.map_err(Problem::from)?;
            Ok(())
        })
    })
}

/// Registers only what is missing. Values of a running server stay, because this process may not have its
/// configuration.
async fn register(known: &Known) -> Result<(), EngineError> {
    let Known { client, queues, kinds, budgets } = known;
    let (store, catalog) = (client.store(), client.refresh().await?);
    let mut queues = queues.clone();
    queues.retain(|queue| catalog.queue_named(&queue.name).is_none());
    let mut kinds = kinds.clone();
    kinds.retain(|kind| catalog.kind_named(&kind.name).is_none());
    if !queues.is_empty() || !kinds.is_empty() {
        store.sync_registry(&queues, &kinds, None).await?;
        client.refresh().await?;
    }
    let there = store.budgets().await?;
    let mut budgets = budgets.clone();
    budgets.retain(|spec| !there.iter().any(|budget| budget.spec.name == spec.name));
    client.set_budgets(&budgets).await
}
