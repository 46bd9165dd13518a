//! Entities: application data with a type, an id and a version that only grows.
//!
//! Owns what a type is, which strategy applies, what a write does to the row, and what of the content is indexed. Pure;
//! the stores write what is decided here, under the entity row's lock.

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
