//! The engine: accepts jobs, runs them and settles them, on any [`windlass_core::Store`].
//!
//! Owns the loops (dispatch, heartbeat, tick, sweep) and the rules of pacing. Knows no SQL, no HTTP and no
//! configuration file. Each loop is steppable: `tick` does one round, `run` only repeats it.

#![forbid(unsafe_code)]

mod alert;
pub mod backup;
mod budget;
pub mod bulk;
mod catalog;
mod client;
mod coalesce;
mod depth;
mod error;
mod handler;
pub mod meter;
pub mod operate;
mod request;
mod retention;
mod schedule;
mod sweep;
mod wait;
pub mod worker;
mod workflow;

pub use alert::AlertWatch;
pub use budget::{Reservation, ReserveError};
pub use catalog::Catalog;
pub use client::Client;
pub use coalesce::Coalescer;
pub use error::{EngineError, EnqueueError};
pub use handler::{
    Assignment, Completion, Context, Handler, HandlerResult, Handlers, JobError, batch_handler, handler,
};
pub use meter::Meter;
pub use request::JobRequest;
pub use retention::{Retention, RetentionTask};
pub use schedule::Ticker;
pub use sweep::Sweeper;
pub use wait::Waited;
pub use worker::{Worker, WorkerHandle, WorkerOptions};
pub use workflow::{MemberRequest, WorkflowRequest};
