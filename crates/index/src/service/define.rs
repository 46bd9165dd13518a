//! Which entity types exist and who may change them.
//!
//! Types of the configuration, of packs and of the program are written to the database by serving processes at start;
//! operators cannot change them at run time. All other types, including `document`, belong to operators: a process adds
//! one that is missing and never overwrites one. Reading types writes nothing.

use std::sync::Arc;

use windlass_core::audit::Actor;
use windlass_core::entity::{Change, EntityWrite, TextField, WriteRefusal};
use windlass_core::input::{shown, some_of};
use windlass_core::{TypeId, TypeSpec};

use super::{Entities, EntityError};

/// Id of a type that this process defines and the database does not have yet. No row has this id.
const UNSAVED: TypeId = TypeId(0);
/// Actor in the audit log when a configured type is restored.
const CONFIGURATION: &str = "configuration";

impl Entities {
    /// All types, sorted by name.
    pub async fn types(&self) -> Result<Vec<Arc<TypeSpec>>, EntityError> {
        self.inner.types.load(self.store()).await?;
        Ok(self.all_types().into_iter().map(|(_, spec)| spec).collect())
    }

    /// The type as it is in the database now.
    pub async fn type_named(&self, name: &str) -> Result<Arc<TypeSpec>, EntityError> {
        self.inner.types.load(self.store()).await?;
        Ok(self.known_type(name)?.1)
    }

    /// Adds a type, or changes how one is indexed. Text fields cannot change while the type has entities, because their
    /// vectors are of the old fields. An operator, given as `actor`, cannot change a configured type.
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

    /// Writes the configured types, and adds `document` if it is missing.
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

    /// The type in the database, if it has entities and other text fields than `spec`.
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

    /// Also finds a type that another process has just added.
    pub(super) async fn find_type(&self, name: &str) -> Result<(TypeId, Arc<TypeSpec>), EntityError> {
        if self.inner.types.are_due() || self.inner.types.named(name).is_none() {
            self.inner.types.load(self.store()).await?;
        }
        self.known_type(name)
    }

    /// The same inside the caller's transaction. It may hold the last connection, so only an unknown type is read.
    pub(super) async fn find_type_within(&self, name: &str) -> Result<(TypeId, Arc<TypeSpec>), EntityError> {
        match self.inner.types.named(name) {
            Some(found) => Ok(found),
            None => self.find_type(name).await,
        }
    }

    /// Adds the type of the write to the database if only this process defines it.
    pub(super) async fn ensure_type(&self, write: &mut EntityWrite) -> Result<(), EntityError> {
        if write.type_id == UNSAVED {
            (write.type_id, write.spec) = self.add_type(&write.spec).await?;
        }
        Ok(())
    }

    /// Refuses a write whose type is not in the database. The type cannot be added inside the caller's transaction: on
    /// SQLite that transaction holds the only writer.
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
            let all = self.all_types();
            let known: Vec<&str> = all.iter().map(|(_, spec)| spec.name.as_str()).collect();
            EntityError::UnknownType { name: shown(name), known: some_of(&known) }
        })
    }

    /// Types of the database and types that this process defines, sorted by name.
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

/// Drops repeated names; the first definition counts.
pub(super) fn once(types: &[TypeSpec]) -> Vec<TypeSpec> {
    let mut once: Vec<TypeSpec> = Vec::with_capacity(types.len());
    for spec in types {
        if !once.iter().any(|known| known.name == spec.name) {
            once.push(spec.clone());
        }
    }
    once
}

/// In the notation of the configuration: `title^2, text`.
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
