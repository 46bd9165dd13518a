//! The entity part of the store contract.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::audit::Actor;
use crate::entity::{
    BoxKinds, ContentHash, EntityWrite, Fields, IndexState, Operation, TypeSpec, WriteRefusal,
};
use crate::id::EntityNo;
use crate::{JobId, Settlement, StoreError, Strategy, Time, TypeId};

use super::{Settled, TxRef};

#[async_trait]
pub trait EntityStore: Send + Sync {
    /// How many entities a bulk load passes to one call of [`EntityStore::save`].
    fn save_batch_size(&self) -> usize;

    /// All types, oldest first.
    async fn types(&self) -> Result<Vec<(TypeId, TypeSpec)>, StoreError>;

    /// Adds or replaces a type's definition. A type is never removed.
    async fn put_type(&self, spec: &TypeSpec, actor: Option<&Actor>) -> Result<TypeId, StoreError>;

    /// Adds a type unless one of that name exists. Returns the stored one.
    async fn add_type(&self, spec: &TypeSpec) -> Result<(TypeId, TypeSpec), StoreError>;

    /// Writes entities and their boxes in one transaction. [`crate::entity::decide`] decides each row under its lock. A
    /// refused write does not affect the others. The same entity may occur several times; writes apply in order. An
    /// idempotency key is stored in the same transaction; a refused write does not use up its key.
    async fn save(&self, boxes: &BoxKinds, writes: Arc<[EntityWrite]>) -> Result<Vec<Saved>, StoreError>;

    /// Like [`EntityStore::save`], for writes of several callers in one transaction. It does not wait long for locked
    /// rows: the whole call fails instead. Then nothing was written, unless the error is [`StoreError::Unavailable`],
    /// and each caller may save its own writes.
    async fn save_shared(
        &self,
        boxes: &BoxKinds,
        writes: Arc<[EntityWrite]>,
    ) -> Result<Vec<Saved>, StoreError> {
        self.save(boxes, writes).await
    }

    /// Like [`EntityStore::save`], in the caller's transaction.
    async fn save_in(
        &self,
        tx: TxRef<'_>,
        boxes: &BoxKinds,
        writes: &[EntityWrite],
    ) -> Result<Vec<Saved>, StoreError>;

    /// Replaces the stored response that a repeated request with this idempotency key gets. No effect if the key is
    /// unknown.
    async fn replace_response(&self, key: &str, written: &Written) -> Result<(), StoreError>;

    /// Tombstones included.
    async fn entity(&self, entity_type: TypeId, id: &str) -> Result<Option<EntityRecord>, StoreError>;

    /// By id, without tombstones.
    async fn entities(
        &self,
        entity_type: TypeId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<EntityRecord>, StoreError>;

    /// Without tombstones and unknown numbers, in any order.
    async fn entities_numbered(&self, numbers: &[EntityNo]) -> Result<Vec<EntityRecord>, StoreError>;

    /// Settles boxes: the attempt and its vector are written in one transaction. A stale lease changes nothing. A
    /// vector is written only if the entity still has the content that was embedded. Results are in the order of
    /// `done`.
    ///
    /// If a box ends without a vector, the entity that waits for it becomes `failed` in the same transaction, with the
    /// reason from [`crate::entity::why_failed`]. This also holds in [`super::Store::settle`], [`super::Store::act`]
    /// and [`super::Store::reclaim`]. A retry of the box makes the entity pending again.
    async fn index(&self, done: Arc<[BoxDone]>) -> Result<Vec<BoxEnd>, StoreError>;

    /// Entities changed since `after`, with the vectors of one embedding space. Late commits are never missed. An
    /// entity that changed several times appears once, in its current state. `limit` bounds the result where the
    /// database allows it. Reading from an empty mark returns every entity and no tombstones.
    async fn changes(&self, after: &FeedMark, space: &str, limit: u32) -> Result<Changes, StoreError>;

    /// Number of pending entities; counting stops at `cap`.
    async fn pending_entities(&self, cap: u64) -> Result<u64, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    Refused(WriteRefusal),
    Written(Written),
    /// Nothing was written: the idempotency key was used by the same request before. This was its response.
    Replayed(Written),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub no: EntityNo,
    pub id: String,
    pub version: u64,
    pub operation: Operation,
    pub state: IndexState,
    /// The box that will embed this content.
    pub job: Option<JobId>,
    /// How this content is indexed: with the write, or by its box. `None` if there is nothing to index.
    pub strategy: Option<Strategy>,
}

/// [`Written`] as stored with its idempotency key. Rows outlive the binary: add fields, never rename them.
#[derive(Serialize, Deserialize)]
struct Kept {
    no: i64,
    id: String,
    version: u64,
    operation: Operation,
    state: IndexState,
    job: Option<i64>,
    strategy: Option<Strategy>,
}

impl Written {
    /// JSON text, read back by [`Written::from_kept`].
    pub fn to_kept(&self) -> String {
        let Written { no, id, version, operation, state, job, strategy } = self.clone();
        let kept = Kept { no: no.0, id, version, operation, state, job: job.map(|job| job.0), strategy };
        // Serializing plain values cannot fail.
        serde_json::to_string(&kept).unwrap_or_default()
    }

    pub fn from_kept(text: &str) -> Result<Written, StoreError> {
        let corrupt =
            |e| StoreError::Corrupt { what: format!("the answer kept with an idempotency key: {e}") };
        let Kept { no, id, version, operation, state, job, strategy } =
            serde_json::from_str(text).map_err(corrupt)?;
        Ok(Written { no: EntityNo(no), id, version, operation, state, job: job.map(JobId), strategy })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct EntityRecord {
    pub no: EntityNo,
    pub entity_type: TypeId,
    pub id: String,
    pub version: u64,
    /// `None`: a tombstone.
    pub fields: Option<Fields>,
    pub state: IndexState,
    /// The newest version whose content is in the index.
    pub indexed_version: Option<u64>,
    /// The current or latest box.
    pub job: Option<JobId>,
    /// Why indexing failed.
    pub error: Option<String>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A box whose attempt has ended.
#[derive(Clone, Debug)]
pub struct BoxDone {
    pub settlement: Settlement,
    pub entity_type: TypeId,
    pub id: String,
    pub hash: ContentHash,
    pub outcome: BoxOutcome,
}

#[derive(Clone, Debug)]
pub enum BoxOutcome {
    Embedded {
        space: String,
        vector: Vec<u8>,
    },
    /// The settlement has the reason and says whether it is retried.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxEnd {
    pub settled: Settled,
    /// Set if this box made the entity indexed: the time from its write to this commit.
    pub searchable_after: Option<Duration>,
}

/// A reader's position in the change feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedMark(pub String);

#[derive(Clone, Debug)]
pub struct Changes {
    pub entities: Vec<ChangedEntity>,
    pub mark: FeedMark,
    /// More changes may be available now.
    pub more: bool,
}

#[derive(Clone, Debug)]
pub struct ChangedEntity {
    pub no: EntityNo,
    pub entity_type: TypeId,
    pub id: String,
    pub version: u64,
    /// JSON text; `None`: a tombstone.
    pub fields: Option<Vec<u8>>,
    /// The stored vector, which may be of older content.
    pub vector: Option<Vec<u8>>,
    /// The vector is of the current content.
    pub indexed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of an older binary must stay readable.
    #[test]
    fn a_stored_response_is_read_back() {
        let written = Written {
            no: EntityNo(7),
            id: "é\"1".to_owned(),
            version: 3,
            operation: Operation::Create,
            state: IndexState::Pending,
            job: Some(JobId(i64::MAX)),
            strategy: Some(Strategy::Batch),
        };
        let text = r#"{"no":7,"id":"é\"1","version":3,"operation":"create","state":"pending","job":9223372036854775807,"strategy":"batch"}"#;
        assert_eq!(written.to_kept(), text);
        assert_eq!(Written::from_kept(text).unwrap(), written);
        assert!(Written::from_kept("{}").is_err());
    }
}
