//! The JSON objects of the HTTP interface and of `--json` on the command line.
//!
//! Owns names and formats of fields: ids are strings, times are RFC 3339. Contains no rules.

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
