//! What a write does to an entity's row, for both stores.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ContentHash, Fields, Operation, Strategy, TypeSpec, content_hash, parts, resolve};
use crate::input::MAX_PAYLOAD_BYTES;
use crate::input::is_dots;
use crate::{EntityRef, Idempotency, Invalid, KindId, NewJob, OnConflict, QueueId, RunAt, TypeId, Unique};

pub const MAX_ID_BYTES: usize = 512;

/// A validated write.
#[derive(Clone, Debug)]
pub struct EntityWrite {
    pub type_id: TypeId,
    pub spec: Arc<TypeSpec>,
    pub id: String,
    pub change: Change,
    pub expected: Expected,
    /// As requested by the caller.
    pub strategy: Option<Strategy>,
    pub priority: Option<u8>,
    pub delay: Option<Duration>,
    pub max_attempts: Option<u16>,
    /// A vector computed beforehand, for sync. Ignored if it belongs to other content.
    pub prepared: Option<Prepared>,
    pub idempotency: Option<Idempotency>,
}

#[derive(Clone, Debug)]
pub enum Change {
    /// Replaces all fields.
    Put(Fields),
    /// Changes the given fields; `null` removes one.
    Patch(Fields),
    Delete,
}

/// A precondition of the write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    #[default]
    Anything,
    /// No entity, or a tombstone.
    Absent,
    Version(u64),
}

#[derive(Clone, Debug)]
pub struct Prepared {
    pub hash: ContentHash,
    pub space: String,
    pub vector: Vec<u8>,
}

/// The row, read under its lock.
#[derive(Clone, Debug)]
pub struct Current {
    pub version: u64,
    /// `None`: a tombstone.
    pub fields: Option<Fields>,
    pub hash: Option<ContentHash>,
    pub state: IndexState,
    /// The strategy of the waiting box, if any.
    pub waiting: Option<Strategy>,
}

/// Whether a vector of the current content is in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexState {
    Pending,
    Indexed,
    Failed,
    Deleted,
}

impl IndexState {
    pub const ALL: [IndexState; 4] =
        [IndexState::Pending, IndexState::Indexed, IndexState::Failed, IndexState::Deleted];

    pub fn name(self) -> &'static str {
        match self {
            IndexState::Pending => "pending",
            IndexState::Indexed => "indexed",
            IndexState::Failed => "failed",
            IndexState::Deleted => "deleted",
        }
    }

    /// As stored.
    pub fn code(self) -> i16 {
        match self {
            IndexState::Pending => 1,
            IndexState::Indexed => 2,
            IndexState::Failed => 3,
            IndexState::Deleted => 4,
        }
    }

    pub fn from_code(code: i16) -> Option<IndexState> {
        IndexState::ALL.into_iter().find(|state| state.code() == code)
    }
}

#[derive(Clone, Debug)]
pub enum Decision<'w> {
    Refused(WriteRefusal),
    Write(Plan<'w>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRefusal {
    Missing,
    /// It exists, but the caller expected none.
    Exists {
        version: u64,
    },
    /// It has another version than the caller expected.
    Version {
        found: u64,
    },
    /// With the patch, the entity would be too large.
    TooLarge {
        bytes: usize,
    },
    /// The idempotency key was used for another request.
    KeyUsed,
}

#[derive(Clone, Debug)]
pub struct Plan<'w> {
    pub operation: Operation,
    /// Previous version + 1, also after a tombstone.
    pub version: u64,
    /// `None` leaves a tombstone.
    pub fields: Option<Cow<'w, Fields>>,
    pub hash: Option<ContentHash>,
    pub index: IndexPlan,
}

#[derive(Clone, Debug)]
pub enum IndexPlan {
    /// The text did not change and its vector stays valid.
    Keep,
    /// The vector is available: indexed with this write.
    Ready(Prepared),
    /// Queue a box, or replace the waiting one.
    Box(Strategy),
    /// Nothing to index: the vector and a waiting box are deleted.
    Gone,
}

pub fn decide<'w>(current: Option<&Current>, write: &'w EntityWrite) -> Decision<'w> {
    let live = current.filter(|row| row.fields.is_some());
    if let Some(refusal) = refuse(live, write) {
        return Decision::Refused(refusal);
    }
    let version = current.map_or(0, |row| row.version) + 1;
    let operation = match (&write.change, live) {
        (Change::Delete, _) => Operation::Delete,
        (_, None) => Operation::Create,
        (_, Some(_)) => Operation::Update,
    };
    let fields = match &write.change {
        Change::Delete => {
            return Decision::Write(Plan {
                operation,
                version,
                fields: None,
                hash: None,
                index: IndexPlan::Gone,
            });
        }
        Change::Put(fields) => Cow::Borrowed(fields),
        Change::Patch(patch) => Cow::Owned(patched(live.and_then(|row| row.fields.as_ref()), patch)),
    };
    if matches!(write.change, Change::Patch(_)) {
        let bytes = serde_json::to_vec(fields.as_ref()).map_or(0, |json| json.len());
        if bytes > MAX_PAYLOAD_BYTES {
            return Decision::Refused(WriteRefusal::TooLarge { bytes });
        }
    }
    let hash = content_hash(&parts(&write.spec, &fields));
    let index = index_plan(live, write, operation, hash);
    Decision::Write(Plan { operation, version, fields: Some(fields), hash: Some(hash), index })
}

fn refuse(live: Option<&Current>, write: &EntityWrite) -> Option<WriteRefusal> {
    match (live, write.expected) {
        (Some(row), Expected::Absent) => Some(WriteRefusal::Exists { version: row.version }),
        (Some(row), Expected::Version(wanted)) if row.version != wanted => {
            Some(WriteRefusal::Version { found: row.version })
        }
        (None, Expected::Version(_)) => Some(WriteRefusal::Missing),
        (None, _) if !matches!(write.change, Change::Put(_)) => Some(WriteRefusal::Missing),
        _ => None,
    }
}

/// The fields after a patch.
pub fn patched(old: Option<&Fields>, patch: &Fields) -> Fields {
    let mut fields = old.cloned().unwrap_or_default();
    for (name, value) in patch {
        match value.is_null() {
            true => drop(fields.shift_remove(name)),
            false => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    fields
}

fn index_plan(
    live: Option<&Current>,
    write: &EntityWrite,
    operation: Operation,
    hash: ContentHash,
) -> IndexPlan {
    if live.is_some_and(|row| row.hash == Some(hash) && row.state == IndexState::Indexed) {
        return IndexPlan::Keep;
    }
    let wanted = resolve(write.strategy, operation, &write.spec).strategy;
    if wanted == Strategy::Sync
        && let Some(prepared) = write.prepared.as_ref().filter(|prepared| prepared.hash == hash)
    {
        return IndexPlan::Ready(prepared.clone());
    }
    // A sync write without a vector is queued as urgently as possible.
    let wanted = wanted.max(Strategy::Async);
    let waiting = live.and_then(|row| row.waiting.filter(|_| row.state == IndexState::Pending));
    IndexPlan::Box(waiting.map_or(wanted, |waiting| waiting.min(wanted)))
}

/// An id is any text a database can store.
pub fn check_id(invalid: &mut Invalid, field: &str, id: &str) {
    if id.is_empty() || id.len() > MAX_ID_BYTES || id.contains('\0') {
        invalid.add(field, format!("must be 1–{MAX_ID_BYTES} bytes without NUL"));
    }
    if is_dots(id) {
        invalid.add(field, "must not be `.` or `..`: no address can name it");
    }
}

/// How boxes of a strategy are queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxKind {
    pub kind: KindId,
    pub queue: QueueId,
    pub priority: u8,
    pub max_attempts: u16,
    pub timeout: Option<Duration>,
}

/// The kinds of boxes. A sync write without a vector uses async.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxKinds {
    pub soon: BoxKind,
    pub bulk: BoxKind,
}

/// The payload of a box.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Boxed {
    #[serde(rename = "type")]
    pub entity_type: String,
    pub id: String,
    pub version: u64,
    pub fields: Fields,
}

/// [`Boxed`] for serialization; borrows the content.
#[derive(Serialize)]
struct Packed<'a> {
    #[serde(rename = "type")]
    entity_type: &'a str,
    id: &'a str,
    version: u64,
    fields: &'a Fields,
}

impl BoxKinds {
    /// The box for a planned write.
    pub fn boxed(&self, write: &EntityWrite, plan: &Plan<'_>, strategy: Strategy) -> NewJob {
        let kind = if strategy == Strategy::Batch { &self.bulk } else { &self.soon };
        let empty = Fields::new();
        let boxed = Packed {
            entity_type: &write.spec.name,
            id: &write.id,
            version: plan.version,
            fields: plan.fields.as_deref().unwrap_or(&empty),
        };
        NewJob {
            kind: kind.kind,
            queue: kind.queue,
            priority: write.priority.unwrap_or(kind.priority),
            // Serializing a map of strings to JSON values cannot fail.
            payload: serde_json::to_vec(&boxed).unwrap_or_default(),
            run_at: write.delay.map_or(RunAt::Now, RunAt::In),
            max_attempts: write.max_attempts.unwrap_or(kind.max_attempts),
            timeout: kind.timeout,
            unique: Some(Unique::until_started(box_key(&write.spec.name, &write.id), OnConflict::Replace)),
            idempotency: None,
            concurrency_key: None,
            tags: Vec::new(),
            entity: Some(EntityRef { entity_type: write.spec.name.clone(), entity_id: write.id.clone() }),
        }
    }
}

/// The unique key of an entity's boxes: at most one waits. A hash, because ids may be longer than keys.
pub fn box_key(entity_type: &str, id: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(entity_type.as_bytes());
    hash.update([0]);
    hash.update(id.as_bytes());
    let digest = hash.finalize();
    let mut key = String::with_capacity(36);
    key.push_str("box:");
    for byte in &digest[..16] {
        // Writing to a string cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        serde_json::from_str(json).unwrap()
    }

    fn write(change: Change) -> EntityWrite {
        EntityWrite {
            type_id: TypeId(1),
            spec: Arc::new(TypeSpec::document()),
            id: "a".to_owned(),
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

    fn put(json: &str) -> EntityWrite {
        write(Change::Put(fields(json)))
    }

    fn current(json: &str, state: IndexState, waiting: Option<Strategy>) -> Current {
        let fields = fields(json);
        let hash = content_hash(&parts(&TypeSpec::document(), &fields));
        Current { version: 4, fields: Some(fields), hash: Some(hash), state, waiting }
    }

    fn plan<'w>(current: Option<&Current>, write: &'w EntityWrite) -> Plan<'w> {
        match decide(current, write) {
            Decision::Write(plan) => plan,
            Decision::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    fn refusal(current: Option<&Current>, write: &EntityWrite) -> WriteRefusal {
        match decide(current, write) {
            Decision::Refused(refusal) => refusal,
            Decision::Write(plan) => panic!("{plan:?}"),
        }
    }

    #[test]
    fn versions_keep_growing_across_a_tombstone() {
        assert_eq!(plan(None, &put("{}")).version, 1);
        let tombstone =
            Current { version: 9, fields: None, hash: None, state: IndexState::Deleted, waiting: None };
        let new = put("{}");
        let again = plan(Some(&tombstone), &new);
        assert_eq!((again.version, again.operation), (10, Operation::Create));
        assert_eq!(refusal(Some(&tombstone), &write(Change::Delete)), WriteRefusal::Missing);
    }

    #[test]
    fn the_same_text_keeps_its_vector() {
        let row = current(r#"{"text":"x","price":1}"#, IndexState::Indexed, None);
        let plan_of = |json: &str| plan(Some(&row), &put(json)).index;
        assert!(matches!(plan_of(r#"{"text":"x","price":2}"#), IndexPlan::Keep));
        assert!(matches!(plan_of(r#"{"text":"y","price":1}"#), IndexPlan::Box(Strategy::Async)));
    }

    #[test]
    fn a_waiting_box_takes_the_more_urgent_strategy() {
        let row = current(r#"{"text":"x"}"#, IndexState::Pending, Some(Strategy::Async));
        let batch = EntityWrite { strategy: Some(Strategy::Batch), ..put(r#"{"text":"y"}"#) };
        assert!(matches!(plan(Some(&row), &batch).index, IndexPlan::Box(Strategy::Async)));
        let row = Current { waiting: Some(Strategy::Batch), ..row };
        let soon = EntityWrite { strategy: Some(Strategy::Async), ..batch.clone() };
        assert!(matches!(plan(Some(&row), &soon).index, IndexPlan::Box(Strategy::Async)));
        assert!(matches!(plan(Some(&row), &batch).index, IndexPlan::Box(Strategy::Batch)));
    }

    #[test]
    fn sync_uses_only_a_vector_of_this_content() {
        let of = |json: &str| Prepared {
            hash: content_hash(&parts(&TypeSpec::document(), &fields(json))),
            space: "s".to_owned(),
            vector: vec![1],
        };
        let sync = EntityWrite { strategy: Some(Strategy::Sync), ..put(r#"{"text":"x"}"#) };
        let ready = EntityWrite { prepared: Some(of(r#"{"text":"x"}"#)), ..sync.clone() };
        assert!(matches!(plan(None, &ready).index, IndexPlan::Ready(_)));
        let other = EntityWrite { prepared: Some(of(r#"{"text":"y"}"#)), ..sync };
        assert!(matches!(plan(None, &other).index, IndexPlan::Box(Strategy::Async)));
    }

    #[test]
    fn the_payload_of_a_box_is_read_back() {
        let kind =
            BoxKind { kind: KindId(1), queue: QueueId(1), priority: 5, max_attempts: 3, timeout: None };
        let kinds = BoxKinds { soon: kind.clone(), bulk: kind };
        let write = put(r#"{"text":"wörds \"quoted\"","n":{"deep":[1,null]}}"#);
        let job = kinds.boxed(&write, &plan(None, &write), Strategy::Async);
        let boxed: Boxed = serde_json::from_slice(&job.payload).unwrap();
        assert_eq!((boxed.entity_type.as_str(), boxed.id.as_str(), boxed.version), ("document", "a", 1));
        assert!(matches!(&write.change, Change::Put(fields) if *fields == boxed.fields));
    }

    #[test]
    fn a_patch_sets_and_removes() {
        let row = current(r#"{"title":"t","text":"x","price":1}"#, IndexState::Indexed, None);
        let patch = write(Change::Patch(fields(r#"{"price":2,"title":null}"#)));
        let patched = plan(Some(&row), &patch).fields.unwrap();
        assert_eq!(serde_json::to_string(patched.as_ref()).unwrap(), r#"{"text":"x","price":2}"#);
        assert_eq!(refusal(None, &patch), WriteRefusal::Missing);
    }

    #[test]
    fn a_write_is_refused_if_its_precondition_fails() {
        let row = current("{}", IndexState::Indexed, None);
        let expecting = |expected| EntityWrite { expected, ..put("{}") };
        assert_eq!(refusal(Some(&row), &expecting(Expected::Absent)), WriteRefusal::Exists { version: 4 });
        assert_eq!(refusal(Some(&row), &expecting(Expected::Version(3))), WriteRefusal::Version { found: 4 });
        assert_eq!(refusal(None, &expecting(Expected::Version(3))), WriteRefusal::Missing);
        assert_eq!(plan(Some(&row), &expecting(Expected::Version(4))).version, 5);
        assert_eq!(plan(None, &expecting(Expected::Absent)).version, 1);
    }

    #[test]
    fn only_boxes_of_the_same_entity_share_a_key() {
        assert_eq!(box_key("a", "b"), box_key("a", "b"));
        assert_ne!(box_key("ab", "c"), box_key("a", "bc"));
    }
}
