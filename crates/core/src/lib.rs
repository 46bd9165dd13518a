//! The words, rules and store contract that every other crate shares.
//!
//! Owns: identifiers, time, the state machine, retry and crash policy, input limits, and the [`store::Store`]
//! contract. Never does IO, never reads a clock, never starts a task: a rule here is a pure function, so that
//! both databases, the CLI and the tests can only agree.
//!
//! One word per thing: a **job** is a durable unit of work of one **kind**; a kind belongs to one **queue**.
//! A worker **leases** jobs with a **token** that grows with each claim, and **settles** each attempt.
//! A job that ran out of attempts is a **dead letter**. An **entity** is application data with a type, an id and a
//! growing version; its **box** is the job that carries its content to the embedding.

#![forbid(unsafe_code)]

pub mod backoff;
pub mod duration;
pub mod entity;
pub mod id;
pub mod input;
pub mod job;
pub mod kind;
pub mod outcome;
pub mod queue;
pub mod state;
pub mod store;
pub mod sweep;
pub mod time;

pub use backoff::Backoff;
pub use entity::{EntityWrite, Strategy, TypeSpec};
pub use id::{JobId, KindId, QueueId, Token, TypeId, WorkerId};
pub use input::{Invalid, Problem};
pub use job::{
    Attempt, EntityRef, Idempotency, JobRecord, LeasedJob, LogLine, NewJob, OnConflict, Progress, RunAt,
    Unique,
};
pub use kind::KindSpec;
pub use outcome::{Outcome, Settlement, Verdict};
pub use queue::QueueSpec;
pub use state::JobState;
pub use store::{Store, StoreError, TxRef};
pub use time::Time;
