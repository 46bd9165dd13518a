//! Named resources: what a job holds while it runs, of which a worker process has only so many.

use std::collections::BTreeMap;

use crate::{KindSpec, QueueSpec};

pub const MAX_PERMITS: u32 = 10_000;

/// What a queue or a kind says about the resource its jobs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub name: String,
    /// How many of it one worker process has. `None` leaves what others said of the resource, one at first.
    pub permits: Option<u32>,
}

/// What queues and kinds say of resources, by name: a number wins over none.
pub fn named(queues: &[QueueSpec], kinds: &[KindSpec]) -> BTreeMap<String, Option<u32>> {
    let said = queues.iter().map(|queue| &queue.resource).chain(kinds.iter().map(|kind| &kind.resource));
    let mut named: BTreeMap<String, Option<u32>> = BTreeMap::new();
    for Resource { name, permits } in said.flatten() {
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
