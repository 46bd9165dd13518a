//! What the interface shows, as programs read it: one set of objects for HTTP and for the command line's `--json`.
//!
//! Owns names and forms of fields; ids are strings and times RFC 3339 out here. Never decides anything.

mod audit;
mod budget;
mod bulk;
mod kind;
mod queue;
mod schedule;
mod worker;

pub use audit::ActView;
pub use budget::{
    AlertView, BudgetMonthView, BudgetStateName, BudgetView, CostView, CostsView, LevelName, Money,
    ThresholdView,
};
pub use bulk::BulkView;
pub use kind::KindView;
pub use queue::{QueueView, ResourceTotal, StatsView};
pub use schedule::{RuleView, ScheduleView};
pub use windlass_pack::view::*;
pub use worker::{ResourceView, SlotsView, WorkerView};
