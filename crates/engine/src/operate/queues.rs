//! Live changes of a queue.

use std::time::Duration;

use windlass_core::Invalid;
use windlass_core::audit::Actor;
use windlass_core::input::shown;
use windlass_core::scale::Bounds;
use windlass_core::store::{Live, QueueUpdate};

use super::OperateError;
use crate::{Catalog, Client};

/// `None` leaves a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueChange {
    pub paused: Option<bool>,
    pub concurrency: Option<Live<u32>>,
    /// `Set(None)` removes both bounds.
    pub concurrency_min: Option<Live<Option<u32>>>,
    pub concurrency_max: Option<Live<Option<u32>>>,
    pub global_concurrency: Option<Live<Option<u32>>>,
    /// Permits of the queue's resource.
    pub permits: Option<Live<u32>>,
    pub depth_cap: Option<Live<Option<u32>>>,
    pub boost_after: Option<Live<Option<Duration>>>,
}

impl QueueChange {
    fn is_empty(&self) -> bool {
        let QueueChange {
            paused,
            concurrency,
            concurrency_min,
            concurrency_max,
            global_concurrency,
            permits,
            depth_cap,
            boost_after,
        } = self;
        let bounds = [concurrency_min, concurrency_max, global_concurrency, depth_cap];
        paused.is_none()
            && [concurrency, permits].iter().all(|said| said.is_none())
            && bounds.iter().all(|said| said.is_none())
            && boost_after.is_none()
    }
}

impl Client {
    /// Returns the queue's name as it is registered.
    pub async fn change_queue(
        &self,
        name: &str,
        change: &QueueChange,
        mut found: Invalid,
        actor: &Actor,
    ) -> Result<String, OperateError> {
        if change.is_empty() && found.problems.is_empty() {
            let rule = "must change something: paused, concurrency, concurrency_min, concurrency_max, global_concurrency, \
                        permits, depth_cap or boost_after";
            found.add("body", rule);
        }
        let catalog = self.refresh().await?;
        let Some(queue) = catalog.queue_named(name) else {
            found.into_result()?;
            return Err(missing(name, &catalog));
        };
        if change.permits.is_some() && queue.spec.resource.is_none() {
            let name = &queue.spec.name;
            let rule =
                format!("this queue has no resource; name one in the configuration (queues.{name}.resource)");
            found.add("permits", rule);
        }
        let QueueChange { concurrency, concurrency_min: min, concurrency_max: max, .. } = *change;
        let in_force = (queue.spec.concurrency, queue.spec.bounds);
        let bounds = Bounds::change(in_force, concurrency, min, max).unwrap_or_else(|(field, rule)| {
            // A rule about both bounds cannot be checked where one could not be parsed.
            let unread = found.problems.iter().any(|problem| problem.field.starts_with("concurrency"));
            if !unread || (min.is_some() && max.is_some()) {
                found.add(field, rule);
            }
            None
        });
        found.into_result()?;
        let update = QueueUpdate {
            paused: change.paused,
            concurrency,
            bounds,
            permits: change.permits,
            depth_cap: change.depth_cap.map(|cap| cap.map(|cap| cap.map(u64::from))),
            global_concurrency: change.global_concurrency,
            boost_after: change.boost_after,
            actor: Some(actor.clone()),
        };
        match self.store().update_queue(queue.id, &update).await? {
            true => Ok(queue.spec.name.clone()),
            false => Err(missing(name, &catalog)),
        }
    }
}

fn missing(name: &str, catalog: &Catalog) -> OperateError {
    let known = catalog.queue_names().join(", ");
    OperateError::Missing(format!("there is no queue `{}`; known: {known}", shown(name)))
}
