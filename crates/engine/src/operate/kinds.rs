//! Registering a kind and changing its limits.

use windlass_core::audit::Actor;
use windlass_core::input::{shown, some_of};
use windlass_core::limit::{Limited, LiveChanges, PERMITS};
use windlass_core::store::KindUpdate;
use windlass_core::{Invalid, KindSpec};

use super::OperateError;
use super::queues::one_of;
use crate::{Catalog, Client};

/// `None` leaves a value; a new kind needs its queue.
#[derive(Clone, Debug, Default)]
pub struct KindPut {
    pub queue: Option<String>,
    pub limits: LiveChanges,
}

impl Client {
    /// Registers a kind, changes its limits, or both; also returns whether it is new. Each of the two is its own
    /// transaction with its own audit line.
    pub async fn put_kind(
        &self,
        name: &str,
        put: &KindPut,
        mut found: Invalid,
        actor: &Actor,
    ) -> Result<(KindSpec, bool), OperateError> {
        let KindPut { queue, limits } = put;
        if queue.is_none() && limits.is_empty() && found.problems.is_empty() {
            found.add("body", format!("must say something: {}", one_of::<KindSpec>("queue")));
        }
        let catalog = self.refresh().await?;
        let home = queue.as_deref().and_then(|queue| known_queue(queue, &catalog, &mut found));
        let known = catalog.kind_named(name);
        if let (Some(kind), Some(queue)) = (known, &home)
            && kind.spec.queue != *queue
        {
            found.add("queue", format!("must be {}: a kind stays in its queue for good", kind.spec.queue));
        }
        if limits.get(PERMITS).is_some() && known.is_none_or(|kind| kind.spec.resource.is_none()) {
            let rule =
                format!("this kind has no resource; name one in the configuration (kinds.{name}.resource)");
            found.add(PERMITS, rule);
        }
        // A kind that is to be registered, as far as can be told.
        if known.is_none() && (queue.is_some() || !found.problems.is_empty()) {
            found.check_name("kind", name);
        }
        found.into_result()?;
        if known.is_none() {
            let queue = home.ok_or_else(|| missing(name, &catalog))?;
            self.store().sync_registry(&[], &[KindSpec::new(name, &queue)], Some(actor)).await?;
        }
        if !limits.is_empty() {
            let changed = self.refresh().await?;
            let kind = changed.kind_named(name).ok_or_else(|| missing(name, &changed))?;
            let mut update = KindUpdate { actor: Some(actor.clone()), ..KindUpdate::default() };
            KindSpec::change(&mut update, limits);
            self.store().update_kind(kind.id, &update).await?;
        }
        let now = self.refresh().await?;
        let kind = now.kind_named(name).ok_or_else(|| missing(name, &now))?;
        Ok((kind.spec.clone(), known.is_none()))
    }
}

fn known_queue(queue: &str, catalog: &Catalog, found: &mut Invalid) -> Option<String> {
    let known = catalog.queue_named(queue).map(|queue| queue.spec.name.clone());
    if known.is_none() {
        let names = some_of(&catalog.queue_names());
        found.add("queue", format!("must be a queue that exists, not `{}`; known: {names}", shown(queue)));
    }
    known
}

fn missing(name: &str, catalog: &Catalog) -> OperateError {
    let known = catalog.some_kinds();
    let name = shown(name);
    OperateError::Missing(format!("there is no kind `{name}`; name its queue to register it; known: {known}"))
}
