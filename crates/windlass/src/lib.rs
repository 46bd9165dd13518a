//! Durable jobs for applications, in your own database and your own transaction.
//!
//! ```no_run
//! use serde::{Deserialize, Serialize};
//! use windlass::{Context, Job, JobError, Windlass};
//!
//! #[derive(Serialize, Deserialize)]
//! struct SendWelcome {
//!     user: u64,
//! }
//!
//! impl Job for SendWelcome {
//!     const KIND: &'static str = "SEND_WELCOME";
//! }
//!
//! async fn send_welcome(context: Context, job: SendWelcome) -> Result<(), JobError> {
//!     context.log(format!("greeting user {}", job.user));
//!     Ok(())
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let windlass = Windlass::builder().database("sqlite://app.db").job(send_welcome).build().await?;
//! let workers = windlass.start().await?;
//!
//! let mut tx = windlass.begin().await?;
//! // … the application's own writes with `tx.sqlite()` or `tx.postgres()` …
//! windlass.enqueue_in(&mut tx, SendWelcome { user: 42 }).await?;
//! tx.commit().await?;
//!
//! workers.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! With [`Builder::entities`] it also makes the application's data searchable. [`Windlass::save`] writes an entity and
//! queues its indexing in one transaction, [`Windlass::search`] finds it by words and meaning, and [`Windlass::delete`]
//! removes it.
//!
//! With [`Builder::schedule`] a job is enqueued at regular times. A schedule stays in the database until it is deleted.
//!
//! With [`Builder::budget`] calls to paid providers stay within a monthly limit: a handler
//! [reserves](windlass_engine::Context::reserve) before the call and settles after it.
//!
//! With [`Windlass::enqueue_workflow`] jobs wait for others: a [`Workflow`] names its jobs and their dependencies.
//!
//! Owns the builder, typed jobs, schedules, workflows and test modes. Everything else is re-exported.

#![forbid(unsafe_code)]

mod builder;
mod context;
mod job;
pub mod parts;
mod schedule;
mod testing;
mod tx;
mod workflow;

pub use builder::{BuildError, Builder, TestMode, Windlass, Workers};
pub use context::Context;
pub use job::{Job, Request};
pub use schedule::Schedule;
pub use tx::{AsTx, Tx};
pub use workflow::{Step, Workflow};

pub use windlass_core::backup::{Column as BackupColumn, ColumnKind, Table};
pub use windlass_core::budget::{
    Amount, BudgetSpec, BudgetState, Estimate, Level, Month, Refusal, Threshold, Trigger, Usage,
};
pub use windlass_core::entity::{Change, Expected, IndexState, Strategy, TextField, TypeSpec, WriteRefusal};
pub use windlass_core::schedule::ScheduleSpec;
pub use windlass_core::schedule::{CalendarSpec, Misfire, Phase, RuleSpec};
pub use windlass_core::store::{
    Budget, Charged, Enqueued, EntityRecord, Parent, Started, WorkflowDetail, Written,
};
pub use windlass_core::workflow::{OnFailure, WorkflowState};
pub use windlass_core::{
    Backoff, JobId, JobRecord, JobState, KindSpec, OnConflict, QueueSpec, ReservationId, StoreError, Time,
    UniqueUntil, WorkflowId,
};
pub use windlass_core::{Invalid, input};
pub use windlass_engine::worker::Drained;
pub use windlass_engine::{
    Client, Completion, EngineError, EnqueueError, HandlerResult, JobError, JobRequest, Reservation,
    ReserveError, Retention, Waited, WorkerOptions, handler,
};
pub use windlass_index::embed::{BuiltIn, EmbedError, Embedder, StaticTable};
pub use windlass_index::filter::Filter;
pub use windlass_index::vector::Vector;
pub use windlass_index::{
    Entities, EntityError, Facet, FacetValue, Hit, Mode, SaveRequest, SearchAnswer, SearchRequest,
};

/// The plug-in API: [`Pack`](pack::Pack), what it registers, and the types of routes.
pub use windlass_pack as pack;

/// Compiles the Rust examples of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The same.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/search.md")]
struct Search;
