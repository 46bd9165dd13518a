//! The start of every entity case: a type, boxes for both strategies, and a reader of the change feed. A box is the
//! indexing job of an entity.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::entity::{
    BoxKind, BoxKinds, Change, ContentHash, EntityWrite, Expected, Fields, Prepared, TypeSpec, WriteRefusal,
    content_hash, parts,
};
use windlass_core::store::{
    BoxDone, BoxEnd, BoxOutcome, ChangedEntity, Claim, EntityRecord, FeedMark, Saved, Settled, Written,
};
use windlass_core::{JobId, LeasedJob, Outcome, Store, Strategy, TypeId, WorkerId};

use super::{Harness, settlement};

/// The vector space of the cases.
pub(super) const SPACE: &str = "small/1";

/// Boxes of the async strategy go to [`super::QUEUE`], those of the batch strategy to [`super::OTHER_QUEUE`].
pub(super) struct EntityFixture<'h> {
    pub(super) h: &'h Harness,
    pub(super) type_id: TypeId,
    pub(super) spec: Arc<TypeSpec>,
    pub(super) boxes: BoxKinds,
    pub(super) worker: WorkerId,
}

pub(super) fn fields(json: &str) -> Fields {
    serde_json::from_str(json).unwrap()
}

/// Fields with this text.
pub(super) fn saying(text: &str) -> Fields {
    fields(&format!(r#"{{"title":"t","text":{}}}"#, serde_json::Value::from(text)))
}

impl<'h> EntityFixture<'h> {
    pub(super) async fn new(h: &'h Harness) -> EntityFixture<'h> {
        let spec = Arc::new(TypeSpec::document());
        let type_id = h.store.put_type(&spec, None).await.unwrap();
        let kind = |kind, queue, priority| BoxKind { kind, queue, priority, max_attempts: 3, timeout: None };
        let boxes = BoxKinds { soon: kind(h.kind, h.queue, 3), bulk: kind(h.other_kind, h.other_queue, 6) };
        EntityFixture { h, type_id, spec, boxes, worker: h.worker().await }
    }

    // Writing --------------------------------------------------------------------------------------------------

    pub(super) fn write(&self, id: &str, change: Change) -> EntityWrite {
        EntityWrite {
            type_id: self.type_id,
            spec: self.spec.clone(),
            id: id.to_owned(),
            change,
            expected: Expected::Anything,
            strategy: None,
            priority: None,
            delay: None,
            max_attempts: None,
            prepared: None,
            idempotency: None,
        }
    }

    pub(super) fn put(&self, id: &str, text: &str) -> EntityWrite {
        self.write(id, Change::Put(saying(text)))
    }

    pub(super) fn delete(&self, id: &str) -> EntityWrite {
        self.write(id, Change::Delete)
    }

    pub(super) fn with(&self, strategy: Strategy, write: EntityWrite) -> EntityWrite {
        EntityWrite { strategy: Some(strategy), ..write }
    }

    pub(super) fn later(&self, delay: Duration, write: EntityWrite) -> EntityWrite {
        EntityWrite { delay: Some(delay), ..write }
    }

    /// A sync write with its vector.
    pub(super) fn prepared(&self, id: &str, text: &str, vector: &[u8]) -> EntityWrite {
        let made = Prepared { hash: self.hash(text), space: SPACE.to_owned(), vector: vector.to_vec() };
        EntityWrite { prepared: Some(made), ..self.with(Strategy::Sync, self.put(id, text)) }
    }

    pub(super) async fn save(&self, writes: &[EntityWrite]) -> Vec<Saved> {
        self.save_on(&*self.h.store, writes).await
    }

    pub(super) async fn save_on(&self, handle: &dyn Store, writes: &[EntityWrite]) -> Vec<Saved> {
        let saved = handle.save(&self.boxes, writes.into()).await.unwrap();
        assert_eq!(saved.len(), writes.len());
        saved
    }

    /// One write that must be accepted.
    pub(super) async fn saved(&self, write: EntityWrite) -> Written {
        taken(self.save(&[write]).await.remove(0))
    }

    /// One write that must be refused.
    pub(super) async fn refused(&self, write: EntityWrite) -> WriteRefusal {
        match self.save(&[write]).await.remove(0) {
            Saved::Refused(refusal) => refusal,
            taken => panic!("{taken:?}"),
        }
    }

    // Reading --------------------------------------------------------------------------------------------------

    pub(super) async fn found(&self, id: &str) -> Option<EntityRecord> {
        self.h.store.entity(self.type_id, id).await.unwrap()
    }

    pub(super) async fn get(&self, id: &str) -> EntityRecord {
        self.found(id).await.unwrap_or_else(|| panic!("entity {id} is not there"))
    }

    /// The current text of an entity.
    pub(super) async fn text(&self, id: &str) -> String {
        let fields = self.get(id).await.fields.unwrap_or_else(|| panic!("entity {id} is a tombstone"));
        fields["text"].as_str().unwrap().to_owned()
    }

    pub(super) fn hash(&self, text: &str) -> ContentHash {
        content_hash(&parts(&self.spec, &saying(text)))
    }

    // Working --------------------------------------------------------------------------------------------------

    /// Leases the waiting batch boxes.
    pub(super) async fn claim_bulk(&self) -> Vec<LeasedJob> {
        let ask = Claim {
            queue: self.h.other_queue,
            kinds: vec![self.h.other_kind],
            ..self.h.ask(self.worker, 10)
        };
        self.h.store.claim(&ask).await.unwrap()
    }

    /// Leases one box of the main queue.
    pub(super) async fn run(&self) -> LeasedJob {
        self.h.claim_one(self.worker).await
    }

    pub(super) fn embedded(&self, job: &LeasedJob, id: &str, text: &str, vector: &[u8]) -> BoxDone {
        self.outcome(
            job,
            id,
            text,
            Outcome::Done { result: None },
            BoxOutcome::Embedded { space: SPACE.to_owned(), vector: vector.to_vec() },
        )
    }

    /// A box whose embedding failed; `outcome` decides whether it is retried.
    pub(super) fn failed(&self, job: &LeasedJob, id: &str, text: &str, outcome: Outcome) -> BoxDone {
        self.outcome(job, id, text, outcome, BoxOutcome::Failed)
    }

    fn outcome(&self, job: &LeasedJob, id: &str, text: &str, run: Outcome, outcome: BoxOutcome) -> BoxDone {
        let (entity_type, hash) = (self.type_id, self.hash(text));
        BoxDone { settlement: settlement(job, run), entity_type, id: id.to_owned(), hash, outcome }
    }

    pub(super) async fn index(&self, done: BoxDone) -> Settled {
        self.end(done).await.settled
    }

    pub(super) async fn end(&self, done: BoxDone) -> BoxEnd {
        let ends = self.h.store.index([done].into()).await.unwrap();
        assert_eq!(ends.len(), 1);
        ends[0]
    }

    /// Saves an entity and has its box embedded.
    pub(super) async fn indexed(&self, id: &str, text: &str, vector: &[u8]) -> JobId {
        let written = self.saved(self.put(id, text)).await;
        let job = self.run().await;
        assert_eq!(Some(job.id), written.job);
        assert_eq!(self.index(self.embedded(&job, id, text, vector)).await, Settled::Accepted);
        job.id
    }
}

pub(super) fn taken(saved: Saved) -> Written {
    match saved {
        Saved::Written(written) => written,
        other => panic!("{other:?}"),
    }
}

/// Reads the change feed like the in-memory index.
#[derive(Default)]
pub(super) struct FeedReader {
    pub(super) mark: FeedMark,
    /// Entities that exist, by id.
    pub(super) seen: BTreeMap<String, ChangedEntity>,
}

impl FeedReader {
    /// Reads the feed to its end and returns all changes.
    pub(super) async fn drain(&mut self, handle: &dyn Store, limit: u32) -> Vec<ChangedEntity> {
        let mut all = Vec::new();
        loop {
            let changes = handle.changes(&self.mark, SPACE, limit).await.unwrap();
            assert!(changes.entities.len() <= limit as usize, "no more than asked for");
            self.mark = changes.mark;
            for entity in changes.entities {
                match entity.fields {
                    Some(_) => self.seen.insert(entity.id.clone(), entity.clone()),
                    None => self.seen.remove(&entity.id),
                };
                all.push(entity);
            }
            if !changes.more {
                return all;
            }
        }
    }

    /// The ids of all changes, sorted.
    pub(super) async fn ids(&mut self, handle: &dyn Store, limit: u32) -> Vec<String> {
        let mut ids: Vec<String> = self.drain(handle, limit).await.into_iter().map(|e| e.id).collect();
        ids.sort_unstable();
        ids
    }
}
