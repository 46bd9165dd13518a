//! Live changes of a queue.

use windlass_core::audit::Actor;
use windlass_core::input::{shown, some_of};
use windlass_core::limit::{LimitValue, Limited, LiveChanges, PERMITS};
use windlass_core::scale::{Bounds, Refused};
use windlass_core::store::{Live, QueueUpdate};
use windlass_core::{Invalid, QueueSpec};

use super::OperateError;
use crate::{Catalog, Client};

/// `None` leaves a value.
#[derive(Clone, Debug, Default)]
pub struct QueueChange {
    pub paused: Option<bool>,
    pub limits: LiveChanges,
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
        let QueueChange { paused, limits } = change;
        if paused.is_none() && limits.is_empty() && found.problems.is_empty() {
            found.add("body", format!("must change something: {}", one_of::<QueueSpec>("paused")));
        }
        let catalog = self.refresh().await?;
        let Some(queue) = catalog.queue_named(name) else {
            found.into_result()?;
            return Err(missing(name, &catalog));
        };
        if limits.get(PERMITS).is_some() && queue.spec.resource.is_none() {
            let name = &queue.spec.name;
            let rule =
                format!("this queue has no resource; name one in the configuration (queues.{name}.resource)");
            found.add(PERMITS, rule);
        }
        let bounds = bounds(&queue.spec, limits).unwrap_or_else(|(field, rule)| {
            // A rule about both bounds cannot be checked where one could not be parsed.
            let unread = found.problems.iter().any(|problem| problem.field.starts_with("concurrency"));
            let both = limits.get("concurrency_min").is_some() && limits.get("concurrency_max").is_some();
            if !unread || both {
                found.add(field, rule);
            }
            None
        });
        found.into_result()?;
        let mut update =
            QueueUpdate { paused: *paused, actor: Some(actor.clone()), ..QueueUpdate::default() };
        QueueSpec::change(&mut update, limits);
        update.bounds = bounds;
        match self.store().update_queue(queue.id, &update).await? {
            true => Ok(queue.spec.name.clone()),
            false => Err(missing(name, &catalog)),
        }
    }
}

/// The two bounds as one value, checked against the values in force and the other changes.
fn bounds(queue: &QueueSpec, changes: &LiveChanges) -> Result<Option<Live<Option<Bounds>>>, Refused> {
    let number = |name| {
        changes.get(name).map(|live| {
            live.map(|value| match value {
                Some(LimitValue::Number(number)) => u32::try_from(number).ok(),
                _ => None,
            })
        })
    };
    let concurrency = number("concurrency").map(|live| live.map(Option::unwrap_or_default));
    let in_force = (queue.concurrency, queue.bounds);
    Bounds::change(in_force, concurrency, number("concurrency_min"), number("concurrency_max"))
}

/// `paused, concurrency, … or boost_after`.
pub(super) fn one_of<S: Limited>(first: &str) -> String {
    let names: Vec<&str> = S::limits().map(|limit| limit.name).collect();
    match names.split_last() {
        Some((last, [])) => format!("{first} or {last}"),
        Some((last, rest)) => format!("{first}, {} or {last}", rest.join(", ")),
        None => first.to_owned(),
    }
}

fn missing(name: &str, catalog: &Catalog) -> OperateError {
    let known = some_of(&catalog.queue_names());
    OperateError::Missing(format!("there is no queue `{}`; known: {known}", shown(name)))
}
