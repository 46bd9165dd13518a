//! Objects shared by routes of all parts: pages of a list, ids, times, jobs and workflows.
//!
//! Ids are strings and times are RFC 3339. Contains no rules.

mod job;
mod workflow;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use windlass_core::{JobState, Time};

use crate::shape;
use crate::shape::{Schemas, Shape};

pub use job::{AttemptView, DetailView, EnqueuedView, EntityView, JobView, LogView, ProgressView, raw};
pub use workflow::{CountsView, WorkflowDetailView, WorkflowJobView, WorkflowStateName, WorkflowView};

/// A page of a list.
#[derive(Debug, Serialize)]
pub struct ListView<T> {
    /// Fewer than `limit` if they exceed 4 MiB together.
    pub items: Vec<T>,
    /// Cursor of the next page; `null` on the last.
    pub next_cursor: Option<String>,
}

impl<T> ListView<T> {
    pub fn whole(items: Vec<T>) -> ListView<T> {
        ListView { items, next_cursor: None }
    }
}

impl<T: Shape> Shape for ListView<T> {
    fn schema(schemas: &mut Schemas) -> Value {
        let items = Vec::<T>::schema(schemas);
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "items": items,
                "next_cursor": { "type": ["string", "null"], "description": "Cursor of the next page; null on the last" },
            },
            "required": ["items", "next_cursor"],
        })
    }
}

shape! {
    /// A rule that the input violates.
    pub struct FieldError as "FieldError" {
        /// `payload`, `[3].priority`, `filter.state`.
        pub field: String,
        pub rule: String,
    }
}

/// A string in JSON, so that no reader rounds it.
#[derive(Clone, Copy, Debug)]
pub struct Id(pub i64);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl Shape for Id {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "pattern": "^[0-9]+$" })
    }
}

/// RFC 3339 in UTC.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(pub Time);

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl Shape for Stamp {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "format": "date-time" })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct State(pub JobState);

impl Serialize for State {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

impl Shape for State {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "enum": JobState::ALL.map(JobState::name) })
    }
}
