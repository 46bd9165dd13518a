//! Named resources that a job holds while it runs. A worker process has a fixed number of permits for each.

use std::collections::BTreeMap;

use crate::{KindSpec, QueueSpec};

pub const MAX_PERMITS: u32 = 10_000;

/// The resource that jobs of a queue or kind need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub name: String,
    /// Permits per worker process. `None` keeps the number configured elsewhere, or 1.
    pub permits: Option<u32>,
}

/// All resources of queues and kinds by name. A configured number takes precedence over `None`.
pub fn named(queues: &[QueueSpec], kinds: &[KindSpec]) -> BTreeMap<String, Option<u32>> {
    let resources = queues.iter().map(|queue| &queue.resource).chain(kinds.iter().map(|kind| &kind.resource));
    let mut named: BTreeMap<String, Option<u32>> = BTreeMap::new();
    for Resource { name, permits } in resources.flatten() {
        let known = named.entry(name.clone()).or_default();
        *known = permits.or(*known);
    }
    named
}

impl Resource {
    pub fn new(name: &str, permits: u32) -> Resource {
        Resource { name: name.to_owned(), permits: Some(permits) }
    }
}
