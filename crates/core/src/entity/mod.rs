//! Entities: application data with a type, an id and a version that only grows.
//!
//! Owns types, indexing strategies, the effect of a write on the row, and which content is indexed. Pure: the stores
//! apply these rules under the lock on the entity's row.

mod content;
mod fate;
mod strategy;
mod tables;
mod types;
mod write;

pub use content::{ContentHash, Part, content_hash, parts};
pub use fate::why_failed;
pub use strategy::{Operation, Resolved, Strategy, resolve};
pub use tables::TABLES;
pub use types::{DOCUMENT, MAX_TEXT_FIELDS, TextField, TypeSpec};
pub use write::{
    BoxKind, BoxKinds, Boxed, Change, Current, Decision, EntityWrite, Expected, IndexPlan, IndexState,
    MAX_ID_BYTES, Plan, Prepared, WriteRefusal, box_key, check_id, decide, patched,
};

pub type Fields = serde_json::Map<String, serde_json::Value>;
