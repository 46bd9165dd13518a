//! What the interface shows, as programs read it: one set of objects for HTTP and for the command line's `--json`.
//!
//! Owns names and forms of fields; ids are strings and times RFC 3339 out here. Never decides anything.

mod audit;
mod budget;
mod bulk;
mod entity;
mod job;
mod kind;
mod queue;
mod schedule;
mod worker;
mod workflow;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use windlass_core::{JobState, Time};

use crate::shape::{Schemas, Shape, shape};

pub use audit::ActView;
pub use budget::{
    AlertView, BudgetMonthView, BudgetStateName, BudgetView, CostView, CostsView, LevelName, Money,
    ThresholdView,
};
pub use bulk::BulkView;
pub use entity::{
    BulkAnswer, EntityFull, FacetView, FacetsView, HitView, LineRefused, ResolvedView, SearchView, TextView,
    TypeView, WrittenView,
};
pub use job::{AttemptView, DetailView, EnqueuedView, EntityView, JobView, LogView, ProgressView};
pub use kind::KindView;
pub(crate) use queue::desired;
pub use queue::{Measured, QueueView, ResourceTotal, StatsView, measure};
pub use schedule::{RuleView, ScheduleView};
pub use worker::{ResourceView, SlotsView, WorkerView};
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
