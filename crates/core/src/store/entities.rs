//! Questions and answers about entities: the second half of the store contract.

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
    /// How many entities of a bulk load make one call of [`EntityStore::save`].
    fn saved_together(&self) -> usize;

    /// Every type, in the order of their making.
    async fn types(&self) -> Result<Vec<(TypeId, TypeSpec)>, StoreError>;

    /// Adds or replaces a type's definition. A type is never removed.
    async fn put_type(&self, spec: &TypeSpec, actor: Option<&Actor>) -> Result<TypeId, StoreError>;

    /// Adds a type unless one of its name is there, which stays as it is. Answers the one that is there now.
    async fn add_type(&self, spec: &TypeSpec) -> Result<(TypeId, TypeSpec), StoreError>;

    /// Writes entities with their boxes in one transaction; each row's fate is [`crate::entity::decide`]'s, under its
    /// lock. A refused one leaves the others. The same entity may be in `writes` more than once: in order. The idempotency
    /// key of a write is kept with it, in the same transaction; a write that is refused leaves its key free.
    async fn save(&self, boxes: &BoxKinds, writes: Arc<[EntityWrite]>) -> Result<Vec<Saved>, StoreError>;

    /// The same for writes of several callers that share a transaction. It does not wait long for a row that another
    /// transaction holds: it fails, and so does every write. Then nothing was written, unless the error is
    /// [`StoreError::Unavailable`]; each caller may save its own.
    async fn save_shared(
        &self,
        boxes: &BoxKinds,
        writes: Arc<[EntityWrite]>,
    ) -> Result<Vec<Saved>, StoreError> {
        self.save(boxes, writes).await
    }

    /// The same inside the caller's transaction.
    async fn save_in(
        &self,
        tx: TxRef<'_>,
        boxes: &BoxKinds,
        writes: &[EntityWrite],
    ) -> Result<Vec<Saved>, StoreError>;

    /// What a repeat of the write that took this key is answered from now on; nothing where no write has it.
    async fn restate(&self, key: &str, written: &Written) -> Result<(), StoreError>;

    /// With tombstones.
    async fn entity(&self, entity_type: TypeId, id: &str) -> Result<Option<EntityRecord>, StoreError>;

    /// By id, without tombstones.
    async fn entities(
        &self,
        entity_type: TypeId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<EntityRecord>, StoreError>;

    /// Those that are there and not tombstones, in any order.
    async fn entities_numbered(&self, numbers: &[EntityNo]) -> Result<Vec<EntityRecord>, StoreError>;

    /// Ends boxes: the attempt is settled and the vector written in one transaction, each only while it is right. A stale
    /// lease changes nothing. A vector is written only while the entity's content is the one embedded. The answer is in the
    /// order of the question.
    ///
    /// However a box ends without its vector, here, in [`super::Store::settle`], [`super::Store::act`] or
    /// [`super::Store::reclaim`], the entity that waits for it becomes `failed` in the same transaction and says why
    /// ([`crate::entity::why_failed`]); a replay of the box makes it pending again.
    async fn index(&self, done: Arc<[BoxDone]>) -> Result<Vec<BoxEnd>, StoreError>;

    /// What changed since `after`, with vectors of one space; never misses a late commit. An entity that changed often
    /// is there once, as it is now. `limit` bounds the answer where the database allows it. The first answers, from an
    /// empty mark, hold every entity and no tombstone.
    async fn changes(&self, after: &FeedMark, space: &str, limit: u32) -> Result<Changes, StoreError>;

    /// Entities whose state is pending, counted no further than `cap`.
    async fn pending_entities(&self, cap: u64) -> Result<u64, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    Refused(WriteRefusal),
    Written(Written),
    /// Nothing was written: the same request took its idempotency key before, and this is what it was answered.
    Replayed(Written),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub no: EntityNo,
    pub id: String,
    pub version: u64,
    pub operation: Operation,
    pub state: IndexState,
    /// The box that waits for this content.
    pub job: Option<JobId>,
    /// How this content is indexed: sync with the write, else as its box is queued. `None`: there was nothing to index.
    pub strategy: Option<Strategy>,
}

/// A [`Written`] as it is kept with its idempotency key. Rows outlive the process: fields may be added, none renamed.
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
        // A struct of plain values cannot fail to be written.
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

/// An entity as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityRecord {
    pub no: EntityNo,
    pub entity_type: TypeId,
    pub id: String,
    pub version: u64,
    /// `None`: a tombstone.
    pub fields: Option<Fields>,
    pub state: IndexState,
    /// The newest version whose content has its vector in the index.
    pub indexed_version: Option<u64>,
    /// The box that waits or waited last.
    pub job: Option<JobId>,
    /// Why it is failed.
    pub error: Option<String>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A box that was run.
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
    /// The settlement says why, and whether it comes back.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxEnd {
    pub settled: Settled,
    /// With this box the entity became indexed: the time from its write to this commit.
    pub searchable_after: Option<Duration>,
}

/// How far a follower has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedMark(pub String);

#[derive(Clone, Debug)]
pub struct Changes {
    pub entities: Vec<ChangedEntity>,
    pub mark: FeedMark,
    /// There may be more at once.
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
    /// The vector that is stored, of whichever content.
    pub vector: Option<Vec<u8>>,
    /// The vector is of the present content.
    pub indexed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows written by an older binary are read by this one.
    #[test]
    fn a_kept_answer_comes_back() {
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
