//! The index of all types, which is searched while it changes.
//!
//! Owns the lock. Changes are applied in small groups, so a search waits for at most a millisecond or two. Ranking is
//! pure; the fields of a hit are read from the store afterwards.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use windlass_core::id::EntityNo;
use windlass_core::store::ChangedEntity;
use windlass_core::{TypeId, TypeSpec};

use crate::rank::{RankQuery, Ranking};
use crate::type_index::{Content, IndexEntry, TypeIndex};
use crate::vector::Vector;

/// Documents applied per acquisition of the lock.
const GROUP: usize = 64;

pub(crate) struct LiveIndex {
    dimension: usize,
    types: RwLock<HashMap<TypeId, TypeIndex>>,
}

impl LiveIndex {
    pub(crate) fn new(dimension: usize) -> LiveIndex {
        LiveIndex { dimension, types: RwLock::default() }
    }

    /// Skips entities whose type `spec` does not know. Callers load the types after the changes, so that none is
    /// skipped.
    pub(crate) fn apply(&self, changes: Vec<ChangedEntity>, spec: impl Fn(TypeId) -> Option<Arc<TypeSpec>>) {
        let known = self.known(&changes);
        let mut entries =
            changes.into_iter().zip(known).filter_map(|(one, known)| entry(one, known)).peekable();
        while entries.peek().is_some() {
            let group: Vec<(TypeId, IndexEntry)> = entries.by_ref().take(GROUP).collect();
            let mut types = self.types.write().unwrap_or_else(PoisonError::into_inner);
            for (entity_type, entry) in group {
                let Some(spec) = spec(entity_type) else { continue };
                let index =
                    types.entry(entity_type).or_insert_with(|| TypeIndex::new(spec.clone(), self.dimension));
                // Text fields change only while a type has no entities, so everything indexed here was deleted.
                if index.spec.text != spec.text {
                    *index = TypeIndex::new(spec, self.dimension);
                }
                index.apply(entry);
            }
        }
    }

    /// Which of these versions are in the index already, so that their text is not parsed again. Only one caller
    /// applies changes at a time, so the answer stays true.
    fn known(&self, changes: &[ChangedEntity]) -> Vec<bool> {
        let types = self.types.read().unwrap_or_else(PoisonError::into_inner);
        let has = |one: &ChangedEntity| {
            types.get(&one.entity_type).is_some_and(|index| index.has(one.no, one.version))
        };
        changes.iter().map(has).collect()
    }

    pub(crate) fn rank(&self, entity_type: TypeId, query: &RankQuery<'_>) -> Option<Ranking> {
        let types = self.types.read().unwrap_or_else(PoisonError::into_inner);
        types.get(&entity_type).map(|index| index.rank(query))
    }

    /// The vector of an entity, possibly of an older content.
    pub(crate) fn vector_of(&self, entity_type: TypeId, no: EntityNo) -> Option<Vector> {
        let types = self.types.read().unwrap_or_else(PoisonError::into_inner);
        let index = types.get(&entity_type)?;
        let doc = index.number(no)?;
        index.documents[doc as usize].placed.then(|| index.vectors.get(doc))
    }

    /// Entities whose vector is of their current content.
    pub(crate) fn indexed(&self) -> u64 {
        let types = self.types.read().unwrap_or_else(PoisonError::into_inner);
        types.values().map(|index| index.indexed() as u64).sum()
    }
}

/// `None` for a row that cannot be parsed: it is not searched, and reading it through the store reports the error.
fn entry(changed: ChangedEntity, known: bool) -> Option<(TypeId, IndexEntry)> {
    let content = match &changed.fields {
        None => Content::Gone,
        Some(_) if known => Content::Known,
        Some(json) => Content::New(serde_json::from_slice(json).ok()?),
    };
    let vector = changed.vector.as_deref().and_then(Vector::from_bytes);
    let indexed = changed.indexed && vector.is_some();
    let (no, id, version) = (changed.no, changed.id, changed.version);
    Some((changed.entity_type, IndexEntry { no, id, version, content, vector, indexed }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::Mode;

    const TYPE: TypeId = TypeId(1);

    fn changed(no: i64, version: u64, text: Option<&str>) -> ChangedEntity {
        let fields =
            text.map(|text| serde_json::json!({"text": text, "group": no % 2}).to_string().into_bytes());
        let id = format!("e{no:05}");
        ChangedEntity {
            no: EntityNo(no),
            entity_type: TYPE,
            id,
            version,
            fields,
            vector: None,
            indexed: false,
        }
    }

    fn apply(index: &LiveIndex, changes: Vec<ChangedEntity>) {
        index.apply(changes, |_| Some(Arc::new(TypeSpec::document())));
    }

    fn found(index: &LiveIndex, text: &str) -> Vec<(String, f32)> {
        let query = RankQuery {
            text: Some(text),
            vector: None,
            mode: Mode::Keyword,
            filter: None,
            depth: 20,
            without: None,
            facets: &[],
        };
        let ranking = index.rank(TYPE, &query).unwrap();
        ranking.hits.iter().map(|hit| (hit.id.to_string(), hit.score)).collect()
    }

    /// The same documents rank the same after any order of writes.
    #[test]
    fn a_ranking_does_not_depend_on_past_writes() {
        let fresh = LiveIndex::new(4);
        let lived = LiveIndex::new(4);
        let text = |no: i64| {
            format!("wing number {} of the {} aircraft", no, if no % 3 == 0 { "heavy" } else { "light" })
        };
        apply(&fresh, (0..3_000).map(|no| changed(no, 2, Some(&text(no)))).collect());
        apply(&lived, (0..4_000).rev().map(|no| changed(no, 1, Some("heavy old wing"))).collect());
        apply(&lived, (0..3_000).rev().map(|no| changed(no, 2, Some(&text(no)))).collect());
        apply(&lived, (3_000..4_000).map(|no| changed(no, 2, None)).collect());
        for query in ["heavy wing", "number 77", "aircraft", "light 12 14"] {
            assert_eq!(found(&fresh, query), found(&lived, query), "{query}");
        }
        assert!(found(&lived, "old").is_empty());
    }

    #[test]
    fn deleted_and_replaced_documents_are_not_found() {
        let index = LiveIndex::new(4);
        apply(&index, vec![changed(1, 1, Some("alpha")), changed(2, 1, Some("alpha"))]);
        apply(&index, vec![changed(1, 2, None), changed(2, 2, Some("beta"))]);
        assert!(found(&index, "alpha").is_empty());
        assert_eq!(found(&index, "beta").len(), 1);
    }
}
