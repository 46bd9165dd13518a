//! Questions and answers about entities: the second half of the store contract.

use async_trait::async_trait;

use crate::entity::{BoxKinds, ContentHash, EntityWrite, Fields, IndexState, Operation, Refusal, TypeSpec};
use crate::id::EntityNo;
use crate::{JobId, Settlement, StoreError, Strategy, Time, TypeId};

use super::{Settled, TxRef};

#[async_trait]
pub trait EntityStore: Send + Sync {
    /// Every type, in the order of their making.
    async fn types(&self) -> Result<Vec<(TypeId, TypeSpec)>, StoreError>;

    /// Adds or replaces a type's definition. A type is never removed.
    async fn put_type(&self, spec: &TypeSpec) -> Result<TypeId, StoreError>;

    /// Writes entities with their boxes in one transaction; each row's fate is [`crate::entity::decide`]'s, under its
    /// lock. A refused one leaves the others. The same entity may be in `writes` more than once: in order.
    async fn save(&self, boxes: &BoxKinds, writes: &[EntityWrite]) -> Result<Vec<Saved>, StoreError>;

    /// The same inside the caller's transaction.
    async fn save_in(
        &self,
        tx: TxRef<'_>,
        boxes: &BoxKinds,
        writes: &[EntityWrite],
    ) -> Result<Vec<Saved>, StoreError>;

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
    /// lease changes nothing. A vector is written only while the entity's content is the one embedded. With a `failure`
    /// and a settlement that ends the job, such an entity becomes `failed`. The answer is in the order of the question.
    async fn index(&self, done: &[BoxDone]) -> Result<Vec<Settled>, StoreError>;

    /// What changed since `after`, with vectors of one space; never misses a late commit. An entity that changed often
    /// is there once, as it is now. `limit` bounds the answer where the database allows it. The first answers, from an
    /// empty mark, hold every entity and no tombstone.
    async fn changes(&self, after: &FeedMark, space: &str, limit: u32) -> Result<Changes, StoreError>;

    /// Entities whose state is pending, counted no further than `cap`.
    async fn pending_entities(&self, cap: u64) -> Result<u64, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    Refused(Refusal),
    Written(Written),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub no: EntityNo,
    pub version: u64,
    pub operation: Operation,
    pub state: IndexState,
    /// The box that waits for this content.
    pub job: Option<JobId>,
    /// How that box is queued.
    pub strategy: Option<Strategy>,
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
    Embedded { space: String, vector: Vec<u8> },
    Failed { error: String },
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
