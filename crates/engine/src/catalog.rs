//! The registry as the engine reads it: kinds and queues by name and by number.

use std::collections::HashMap;

use windlass_core::input::{NAMES_SHOWN, shown, some_of};
use windlass_core::store::QueueState;
use windlass_core::{KindId, KindSpec, QueueId, QueueSpec, Store, StoreError};

#[derive(Debug, Default)]
pub struct Catalog {
    kinds: HashMap<KindId, KindEntry>,
    kind_ids: HashMap<String, KindId>,
    queues: HashMap<QueueId, QueueState>,
    queue_ids: HashMap<String, QueueId>,
}

#[derive(Clone, Debug)]
pub struct KindEntry {
    pub id: KindId,
    pub queue: QueueId,
    pub spec: KindSpec,
}

impl Catalog {
    pub async fn load(store: &dyn Store) -> Result<Catalog, StoreError> {
        let mut catalog = Catalog::default();
        for state in store.queues().await? {
            catalog.queue_ids.insert(state.spec.name.clone(), state.id);
            catalog.queues.insert(state.id, state);
        }
        for (id, queue, spec) in store.kinds().await? {
            catalog.kind_ids.insert(spec.name.clone(), id);
            catalog.kinds.insert(id, KindEntry { id, queue, spec });
        }
        Ok(catalog)
    }

    /// Entries of `self` that `other` lacks: none, unless the registry was emptied since.
    pub(crate) fn missing_in(&self, other: &Catalog) -> (Vec<QueueSpec>, Vec<KindSpec>) {
        let queues = self.queues.values().map(|state| &state.spec);
        let kinds = self.kinds.values().map(|entry| &entry.spec);
        (
            queues.filter(|queue| !other.queue_ids.contains_key(&queue.name)).cloned().collect(),
            kinds.filter(|kind| !other.kind_ids.contains_key(&kind.name)).cloned().collect(),
        )
    }

    pub fn kind(&self, id: KindId) -> Option<&KindEntry> {
        self.kinds.get(&id)
    }

    pub fn kind_named(&self, name: &str) -> Option<&KindEntry> {
        self.kind_ids.get(name).and_then(|id| self.kinds.get(id))
    }

    pub fn queue(&self, id: QueueId) -> Option<&QueueState> {
        self.queues.get(&id)
    }

    /// Ignores case: people type `high`.
    pub fn queue_named(&self, name: &str) -> Option<&QueueState> {
        let exact = self.queue_ids.get(name);
        let loose =
            || self.queue_ids.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, id)| id);
        exact.or_else(loose).and_then(|id| self.queues.get(id))
    }

    pub fn kind_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.kind_ids.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Some of the kinds, for error messages. Sorts no more than it names: each job of a large array may ask for it.
    pub(crate) fn some_kinds(&self) -> String {
        let mut names: Vec<&str> = self.kind_ids.keys().map(String::as_str).collect();
        if names.len() > NAMES_SHOWN {
            names.select_nth_unstable(NAMES_SHOWN);
            names[..NAMES_SHOWN].sort_unstable();
        } else {
            names.sort_unstable();
        }
        some_of(&names)
    }

    /// The message for a kind that is not registered.
    pub(crate) fn unknown_kind(&self, name: &str) -> String {
        format!("`{}` is not registered; known kinds: {}", shown(name), self.some_kinds())
    }

    /// Most urgent first.
    pub fn queue_names(&self) -> Vec<&str> {
        let mut queues: Vec<&QueueState> = self.queues.values().collect();
        queues.sort_by_key(|q| (q.spec.priority, q.id));
        queues.into_iter().map(|q| q.spec.name.as_str()).collect()
    }

    pub fn queues(&self) -> impl Iterator<Item = &QueueState> {
        self.queues.values()
    }
}
