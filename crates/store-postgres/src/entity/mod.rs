//! Entities: rows, tombstones, boxes and the change feed.
//!
//! Owns: types, entities and vectors. What a write does is `core::entity::decide`'s, under the row's lock; here it is
//! written down, box and all, in one transaction. Whoever takes locks on entities takes them before any on jobs, by
//! type and id, so that writers and indexers wait for each other in one direction.

mod batch;
mod boxes;
mod feed;
mod index;
mod read;
mod rows;
mod save;

use async_trait::async_trait;
use windlass_core::entity::{BoxKinds, EntityWrite, TypeSpec};
use windlass_core::id::EntityNo;
use windlass_core::store::{BoxDone, Changes, EntityRecord, EntityStore, FeedMark, Saved, Settled};
use windlass_core::{StoreError, TxRef, TypeId};

use crate::PostgresStore;

type Result<T> = std::result::Result<T, StoreError>;

/// A transaction that lost a race is tried again this often.
const TRIES: usize = 5;

#[async_trait]
impl EntityStore for PostgresStore {
    async fn types(&self) -> Result<Vec<(TypeId, TypeSpec)>> {
        self.list_types().await
    }

    async fn put_type(&self, spec: &TypeSpec) -> Result<TypeId> {
        self.write_type(spec).await
    }

    async fn save(&self, boxes: &BoxKinds, writes: &[EntityWrite]) -> Result<Vec<Saved>> {
        self.save_entities(boxes, writes).await
    }

    async fn save_in(&self, tx: TxRef<'_>, boxes: &BoxKinds, writes: &[EntityWrite]) -> Result<Vec<Saved>> {
        self.save_entities_in(tx, boxes, writes).await
    }

    async fn entity(&self, entity_type: TypeId, id: &str) -> Result<Option<EntityRecord>> {
        self.one_entity(entity_type, id).await
    }

    async fn entities(
        &self,
        entity_type: TypeId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<EntityRecord>> {
        self.list_entities(entity_type, after, limit).await
    }

    async fn entities_numbered(&self, numbers: &[EntityNo]) -> Result<Vec<EntityRecord>> {
        self.numbered(numbers).await
    }

    async fn index(&self, done: &[BoxDone]) -> Result<Vec<Settled>> {
        self.end_boxes(done).await
    }

    async fn changes(&self, after: &FeedMark, space: &str, limit: u32) -> Result<Changes> {
        self.read_feed(after, space, limit).await
    }

    async fn pending_entities(&self, cap: u64) -> Result<u64> {
        self.count_pending(cap).await
    }
}
