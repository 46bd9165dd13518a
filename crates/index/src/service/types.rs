//! The types in force, read again when one is asked for that is not known.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use windlass_core::input::shown;
use windlass_core::{Store, TypeId, TypeSpec};

use super::EntityError;

#[derive(Default)]
pub(crate) struct Types {
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<TypeId, Arc<TypeSpec>>,
    ids: HashMap<String, TypeId>,
}

impl Types {
    pub(crate) async fn load(&self, store: &dyn Store) -> Result<(), EntityError> {
        for (id, spec) in store.types().await? {
            self.put(id, spec);
        }
        Ok(())
    }

    pub(crate) fn put(&self, id: TypeId, spec: TypeSpec) -> Arc<TypeSpec> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let spec = Arc::new(spec);
        known.ids.insert(spec.name.clone(), id);
        known.by_id.insert(id, spec.clone());
        spec
    }

    pub(crate) fn named(&self, name: &str) -> Option<(TypeId, Arc<TypeSpec>)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let id = known.ids.get(name)?;
        Some((*id, known.by_id.get(id)?.clone()))
    }

    pub(crate) fn numbered(&self, id: TypeId) -> Option<Arc<TypeSpec>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
    }

    /// Also one that another process has added meanwhile.
    pub(crate) async fn find(
        &self,
        store: &dyn Store,
        name: &str,
    ) -> Result<(TypeId, Arc<TypeSpec>), EntityError> {
        if let Some(found) = self.named(name) {
            return Ok(found);
        }
        self.load(store).await?;
        self.named(name).ok_or_else(|| {
            let known: Vec<String> = self.all().iter().map(|spec| spec.name.clone()).collect();
            EntityError::UnknownType { name: shown(name), known: known.join(", ") }
        })
    }

    pub(crate) fn all(&self) -> Vec<Arc<TypeSpec>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<TypeSpec>> = known.by_id.values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}
