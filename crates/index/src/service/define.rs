//! Which types there are, and whose word they are.
//!
//! One rule: what the configuration, a part or the program defines is written by processes that serve, at their start,
//! and an operator cannot change it beside them. Every other type, `document` among them, is the operator's: it is added
//! where it is missing and never written over. Looking at types writes nothing.

use std::sync::Arc;

use windlass_core::audit::Actor;
use windlass_core::entity::{Change, EntityWrite, TextField, WriteRefusal};
use windlass_core::input::shown;
use windlass_core::{TypeId, TypeSpec};

use super::{Entities, EntityError};

/// A type that is defined here and not in the database yet. No row has this number, so nothing is found under it.
const UNSAVED: TypeId = TypeId(0);
/// Who puts a configured type back, in the audit.
const CONFIGURATION: &str = "configuration";

impl Entities {
    /// By name.
    pub async fn types(&self) -> Result<Vec<Arc<TypeSpec>>, EntityError> {
        self.inner.types.load(self.store()).await?;
        Ok(self.all_types().into_iter().map(|(_, spec)| spec).collect())
    }

    /// As it is in the database now.
    pub async fn type_named(&self, name: &str) -> Result<Arc<TypeSpec>, EntityError> {
        self.inner.types.load(self.store()).await?;
        Ok(self.known_type(name)?.1)
    }

    /// Adds a type, or changes how one is indexed. Which fields are text cannot change while entities have vectors of
    /// them. An operator cannot change what is configured.
    pub async fn put_type(
        &self,
        spec: TypeSpec,
        actor: Option<&Actor>,
    ) -> Result<Arc<TypeSpec>, EntityError> {
        spec.check()?;
        self.inner.types.load(self.store()).await?;
        let configured = self.inner.configured.iter().find(|configured| configured.name == spec.name);
        if actor.is_some() && configured.is_some_and(|configured| *configured != spec) {
            return Err(EntityError::Configured { name: spec.name });
        }
        if self.loses_text(&spec).await?.is_some() {
            return Err(EntityError::TextChanged { name: spec.name });
        }
        let id = self.store().put_type(&spec, actor).await?;
        Ok(self.inner.types.put(id, spec))
    }

    /// Writes what is configured, and adds `document` where it is missing.
    pub(super) async fn define(&self) -> Result<(), EntityError> {
        let inner = &self.inner;
        for spec in &inner.configured {
            spec.check()?;
        }
        inner.types.load(self.store()).await?;
        for spec in inner.configured.iter().chain([&TypeSpec::document()]) {
            if inner.types.named(&spec.name).is_none() {
                self.add_type(spec).await?;
            }
        }
        let configuration = Actor::new(CONFIGURATION);
        for spec in &inner.configured {
            if inner.types.named(&spec.name).is_some_and(|(_, known)| *known == *spec) {
                continue;
            }
            if let Some(indexed) = self.loses_text(spec).await? {
                let (name, configured) = (spec.name.clone(), listed(&spec.text));
                return Err(EntityError::ConfiguredText { name, configured, indexed: listed(&indexed.text) });
            }
            let id = self.store().put_type(spec, Some(&configuration)).await?;
            inner.types.put(id, spec.clone());
        }
        Ok(())
    }

    /// The definition by whose text fields entities are indexed, where that is another one.
    async fn loses_text(&self, spec: &TypeSpec) -> Result<Option<Arc<TypeSpec>>, EntityError> {
        match self.inner.types.named(&spec.name) {
            Some((id, known)) if known.text != spec.text => {
                let entities = self.store().entities(id, None, 1).await?;
                Ok((!entities.is_empty()).then_some(known))
            }
            _ => Ok(None),
        }
    }

    async fn add_type(&self, spec: &TypeSpec) -> Result<(TypeId, Arc<TypeSpec>), EntityError> {
        let (id, there) = self.store().add_type(spec).await?;
        Ok((id, self.inner.types.put(id, there)))
    }

    /// Also one that another process has added meanwhile.
    pub(super) async fn find_type(&self, name: &str) -> Result<(TypeId, Arc<TypeSpec>), EntityError> {
        if self.inner.types.are_due() || self.inner.types.named(name).is_none() {
            self.inner.types.load(self.store()).await?;
        }
        self.known_type(name)
    }

    /// The same inside a transaction of the caller's, which may hold the last connection: only what is unknown is read.
    pub(super) async fn find_type_within(&self, name: &str) -> Result<(TypeId, Arc<TypeSpec>), EntityError> {
        match self.inner.types.named(name) {
            Some(found) => Ok(found),
            None => self.find_type(name).await,
        }
    }

    /// The first write of a type that is defined here and nowhere else brings the type.
    pub(super) async fn ensure_type(&self, write: &mut EntityWrite) -> Result<(), EntityError> {
        if write.type_id == UNSAVED {
            (write.type_id, write.spec) = self.add_type(&write.spec).await?;
        }
        Ok(())
    }

    /// Inside a caller's transaction nothing beside it can be written: on SQLite it holds the only writer. Of a type that is
    /// not there yet there is nothing to change or delete.
    pub(super) fn needs_type(&self, write: &EntityWrite) -> Result<(), EntityError> {
        match (write.type_id, &write.change) {
            (UNSAVED, Change::Put(_)) => Err(EntityError::TypeUnsaved { name: write.spec.name.clone() }),
            (UNSAVED, Change::Patch(_) | Change::Delete) => {
                Err(EntityError::Refused { id: write.id.clone(), refusal: WriteRefusal::Missing })
            }
            _ => Ok(()),
        }
    }

    fn known_type(&self, name: &str) -> Result<(TypeId, Arc<TypeSpec>), EntityError> {
        let found = self.inner.types.named(name).or_else(|| {
            let defined = self.defined().find(|spec| spec.name == name)?;
            Some((UNSAVED, Arc::new(defined)))
        });
        found.ok_or_else(|| {
            let known: Vec<String> = self.all_types().iter().map(|(_, spec)| spec.name.clone()).collect();
            EntityError::UnknownType { name: shown(name), known: known.join(", ") }
        })
    }

    /// Those in the database and those that are defined here, by name.
    pub(super) fn all_types(&self) -> Vec<(TypeId, Arc<TypeSpec>)> {
        let mut all = self.inner.types.all();
        for spec in self.defined() {
            if !all.iter().any(|(_, known)| known.name == spec.name) {
                all.push((UNSAVED, Arc::new(spec)));
            }
        }
        all.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        all
    }

    fn defined(&self) -> impl Iterator<Item = TypeSpec> {
        self.inner.configured.iter().cloned().chain([TypeSpec::document()])
    }
}

/// Each name once: the first word counts.
pub(super) fn once(types: &[TypeSpec]) -> Vec<TypeSpec> {
    let mut once: Vec<TypeSpec> = Vec::with_capacity(types.len());
    for spec in types {
        if !once.iter().any(|known| known.name == spec.name) {
            once.push(spec.clone());
        }
    }
    once
}

/// As the configuration writes them: `title^2, text`.
fn listed(text: &[TextField]) -> String {
    let field = |field: &TextField| match field.weight {
        1 => field.name.clone(),
        weight => format!("{}^{weight}", field.name),
    };
    match text {
        [] => "every field that is text".to_owned(),
        text => text.iter().map(field).collect::<Vec<_>>().join(", "),
    }
}
