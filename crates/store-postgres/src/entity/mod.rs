//! Entities: rows, tombstones, boxes and the change feed.
//!
//! Owns: types, entities and vectors. `core::entity::decide` decides what a write does, under the row's lock; it is
//! written here with its box, in one transaction. Locks are always taken in one order: idempotency key, entities by
//! type and id, jobs. So writers and indexers cannot deadlock.

mod batch;
mod boxes;
mod fate;
mod feed;
mod index;
mod keys;
mod read;
mod rows;
mod save;

pub(crate) use fate::Waiting;

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::audit::Actor;
use windlass_core::entity::{BoxKinds, EntityWrite, TypeSpec};
use windlass_core::id::EntityNo;
use windlass_core::store::{BoxDone, BoxEnd, Changes, EntityRecord, EntityStore, FeedMark, Saved, Written};
use windlass_core::{StoreError, TxRef, TypeId};

use crate::PostgresStore;

type Result<T> = std::result::Result<T, StoreError>;

/// How often a transaction that lost a race is retried.
const TRIES: usize = 5;
/// If a row stays locked for longer, only its writer should wait for it, not all callers that share the transaction.
const BEGIN_SHARED: &str = "begin; set local lock_timeout = '100ms'";

#[async_trait]
impl EntityStore for PostgresStore {
    /// Differs from SQLite, where a call blocks all other writers: here it costs only round trips and a commit.
    fn save_batch_size(&self) -> usize {
        500
    }

    async fn types(&self) -> Result<Vec<(TypeId, TypeSpec)>> {
        self.list_types().await
    }

    async fn put_type(&self, spec: &TypeSpec, actor: Option<&Actor>) -> Result<TypeId> {
        self.write_type(spec, actor).await
    }

    async fn add_type(&self, spec: &TypeSpec) -> Result<(TypeId, TypeSpec)> {
        self.write_new_type(spec).await
    }

    async fn save(&self, boxes: &BoxKinds, writes: Arc<[EntityWrite]>) -> Result<Vec<Saved>> {
        self.save_entities(boxes, &writes).await
    }

    async fn save_shared(&self, boxes: &BoxKinds, writes: Arc<[EntityWrite]>) -> Result<Vec<Saved>> {
        let writes: Vec<&EntityWrite> = writes.iter().collect();
        self.save_once(BEGIN_SHARED, boxes, &writes).await
    }

    async fn save_in(&self, tx: TxRef<'_>, boxes: &BoxKinds, writes: &[EntityWrite]) -> Result<Vec<Saved>> {
        self.save_entities_in(tx, boxes, writes).await
    }

    async fn replace_response(&self, key: &str, written: &Written) -> Result<()> {
        self.restate_answer(key, written).await
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

    async fn index(&self, done: Arc<[BoxDone]>) -> Result<Vec<BoxEnd>> {
        self.end_boxes(&done).await
    }

    async fn changes(&self, after: &FeedMark, space: &str, limit: u32) -> Result<Changes> {
        self.read_feed(after, space, limit).await
    }

    async fn pending_entities(&self, cap: u64) -> Result<u64> {
        self.count_pending(cap).await
    }
}
