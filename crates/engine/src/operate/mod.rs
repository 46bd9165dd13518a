//! What operators read and change: the use cases behind routes and commands, so that neither talks to the store.
//!
//! Each checks its input. A change takes its actor, and its audit line is part of the same transaction. A caller that
//! has found problems of its own passes them as `found`: all are reported at once, before anything is written.

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
pub use filter::FilterWords;
pub use jobs::{Acted, JobChange};
pub use kinds::KindPut;
pub use measure::{Measured, desired};
pub use queues::QueueChange;
