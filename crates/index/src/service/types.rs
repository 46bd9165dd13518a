//! Cache of entity types, as last read from the store.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use windlass_core::{Store, TypeId, TypeSpec};

use super::EntityError;

/// How long a writer may miss another process's change of a type.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Types {
    known: RwLock<TypeTable>,
}

#[derive(Default)]
struct TypeTable {
    by_id: HashMap<TypeId, Arc<TypeSpec>>,
    ids: HashMap<String, TypeId>,
    read: Option<Instant>,
}

impl Types {
    pub(crate) async fn load(&self, store: &dyn Store) -> Result<(), EntityError> {
        let begun = Instant::now();
        let types = store.types().await?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (id, spec) in types {
            known.put(id, Arc::new(spec));
        }
        known.read = Some(begun);
        Ok(())
    }

    pub(crate) fn put(&self, id: TypeId, spec: TypeSpec) -> Arc<TypeSpec> {
        let spec = Arc::new(spec);
        self.known.write().unwrap_or_else(PoisonError::into_inner).put(id, spec.clone());
        spec
    }

    /// Whether the caller must load the types again. Of several concurrent callers only one must, so the others do not
    /// wait.
    pub(crate) fn are_due(&self) -> bool {
        let due = |known: &TypeTable| known.read.is_none_or(|read| read.elapsed() >= FRESH);
        if !due(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return false;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let due = due(&known);
        // Before the first load nothing is known, so every caller must wait for one.
        if due && known.read.is_some() {
            known.read = Some(Instant::now());
        }
        due
    }

    pub(crate) fn named(&self, name: &str) -> Option<(TypeId, Arc<TypeSpec>)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let id = known.ids.get(name)?;
        Some((*id, known.by_id.get(id)?.clone()))
    }

    pub(crate) fn numbered(&self, id: TypeId) -> Option<Arc<TypeSpec>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(TypeId, Arc<TypeSpec>)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.by_id.iter().map(|(id, spec)| (*id, spec.clone())).collect()
    }
}

impl TypeTable {
    fn put(&mut self, id: TypeId, spec: Arc<TypeSpec>) {
        if self.by_id.get(&id).is_some_and(|known| *known == spec) {
            return;
        }
        self.ids.insert(spec.name.clone(), id);
        self.by_id.insert(id, spec);
    }
}
