//! What operators do and look at: the use cases behind routes and verbs, so that neither talks to the store.
//!
//! Owns the checks of each. What changes something takes its actor, whose line in the audit is of the same transaction. Where
//! a caller has found mistakes of its own already, it hands them in as `found`: all are reported at once, before anything is
//! written.

mod budgets;
mod error;
mod filter;
mod jobs;
mod kinds;
mod look;
mod measure;
mod queues;
mod workflows;

pub use budgets::MonthChange;
pub use error::OperateError;
pub use filter::Meant;
pub use jobs::{Acted, JobChange};
pub use kinds::KindPut;
pub use measure::{Measured, desired};
pub use queues::QueueChange;
