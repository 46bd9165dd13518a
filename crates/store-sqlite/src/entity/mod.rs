//! Entities: rows, tombstones, boxes and the change feed.
//!
//! Owns: types, entities and vectors. The single writer serializes changes of a row. `core::entity::decide` decides
//! what a write does; it is written here with its box, in one transaction.

mod fate;
mod index;
mod keys;
mod read;
mod save;

pub(crate) use fate::{box_ended, box_waits_again};

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::audit::Actor;
use windlass_core::entity::{BoxKinds, EntityWrite, TypeSpec};
use windlass_core::id::EntityNo;
use windlass_core::store::{BoxDone, BoxEnd, Changes, EntityRecord, EntityStore, FeedMark, Saved, Written};
use windlass_core::{StoreError, Time, TxRef, TypeId};

use crate::SqliteStore;

#[async_trait]
impl EntityStore for SqliteStore {
    /// Takes a few milliseconds of the single writer.
    fn save_batch_size(&self) -> usize {
        250
    }

    async fn types(&self) -> Result<Vec<(TypeId, TypeSpec)>, StoreError> {
        self.read("list types", read::types).await
    }

    async fn put_type(&self, spec: &TypeSpec, actor: Option<&Actor>) -> Result<TypeId, StoreError> {
        let (spec, actor) = (spec.clone(), actor.cloned());
        self.write("write a type", 1, move |scope| save::put_type(scope, &spec, actor.as_ref())).await
    }

    async fn add_type(&self, spec: &TypeSpec) -> Result<(TypeId, TypeSpec), StoreError> {
        let spec = spec.clone();
        self.write("add a type", 1, move |scope| save::add_type(scope, &spec)).await
    }

    async fn save(&self, boxes: &BoxKinds, writes: Arc<[EntityWrite]>) -> Result<Vec<Saved>, StoreError> {
        let boxes = boxes.clone();
        self.write("save entities", writes.len() * 2, move |scope| save::save(scope, &boxes, &writes)).await
    }

    async fn save_in(
        &self,
        tx: TxRef<'_>,
        boxes: &BoxKinds,
        writes: &[EntityWrite],
    ) -> Result<Vec<Saved>, StoreError> {
        self.write_in("save entities", tx, |scope| save::save(scope, boxes, writes)).await
    }

    async fn replace_response(&self, key: &str, written: &Written) -> Result<(), StoreError> {
        let (key, written) = (key.to_owned(), written.clone());
        self.write("keep an answer", 1, move |scope| keys::replace_response(scope, &key, &written)).await
    }

    async fn entity(&self, entity_type: TypeId, id: &str) -> Result<Option<EntityRecord>, StoreError> {
        let id = id.to_owned();
        self.read("read an entity", move |connection| read::entity(connection, entity_type, &id)).await
    }

    async fn entities(
        &self,
        entity_type: TypeId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<EntityRecord>, StoreError> {
        let after = after.unwrap_or("").to_owned();
        self.read("list entities", move |connection| read::entities(connection, entity_type, &after, limit))
            .await
    }

    async fn entities_numbered(&self, numbers: &[EntityNo]) -> Result<Vec<EntityRecord>, StoreError> {
        let numbers = numbers.to_vec();
        self.read("read entities", move |connection| read::numbered(connection, &numbers)).await
    }

    async fn index(&self, done: Arc<[BoxDone]>) -> Result<Vec<BoxEnd>, StoreError> {
        let ends =
            self.write("index entities", done.len() * 2, move |scope| index::index(scope, &done)).await?;
        let committed = self.now_here();
        let after = |written: Time| committed.since(written);
        Ok(ends
            .into_iter()
            .map(|(settled, written)| BoxEnd { settled, searchable_after: written.map(after) })
            .collect())
    }

    async fn changes(&self, after: &FeedMark, space: &str, limit: u32) -> Result<Changes, StoreError> {
        let (after, space) = (after.clone(), space.to_owned());
        self.read("read the change feed", move |connection| read::changes(connection, &after, &space, limit))
            .await
    }

    async fn pending_entities(&self, cap: u64) -> Result<u64, StoreError> {
        self.read("count pending entities", move |connection| read::pending(connection, cap)).await
    }
}
