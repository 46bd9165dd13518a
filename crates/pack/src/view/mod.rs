//! Shapes that routes of every part show: pages of a list, ids, times, jobs and workflows.
//!
//! Ids are strings and times RFC 3339 out here. Never decides anything.

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
    pub items: Vec<T>,
    /// Where the next page starts; `null` on the last.
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
                "next_cursor": { "type": ["string", "null"], "description": "Where the next page starts; null on the last" },
            },
            "required": ["items", "next_cursor"],
        })
    }
}

shape! {
    /// A rule the input breaks.
    pub struct FieldError as "FieldError" {
        /// `payload`, `[3].priority`, `filter.state`.
        pub field: String,
        pub rule: String,
    }
}

/// A number inside, a string outside: no JSON reader rounds it.
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
