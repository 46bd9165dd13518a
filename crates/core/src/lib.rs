//! The words, rules and store contract that every other crate shares.
//!
//! Owns: identifiers, time, the state machine, retry and crash policy, input limits, and the [`store::Store`]
//! contract. Never does IO, never reads a clock, never starts a task: a rule here is a pure function, so that
//! both databases, the CLI and the tests can only agree.
//!
//! One word per thing: a **job** is a durable unit of work of one **kind**; a kind belongs to one **queue**.
//! A worker **leases** jobs with a **token** that grows with each claim, and **settles** each attempt.
//! A job that ran out of attempts is a **dead letter**; one whose process died under it is a **suspect** and runs alone
//! next time. A **lane** is the jobs of a kind that share a key: a job that is ready or runs holds one of its **slots**, the
//! others are **blocked**; a **lane check** asks the next claim to look for room in a lane. A **resource** is something a process has few of, and a **permit** one of those few; a **rate
//! token** is the right to start one job of a kind whose rate is bounded. An **entity** is application data with a type,
//! an id and a growing version; its **box** is the job that carries its content to the embedding. A **tick** is one firing
//! of a **schedule**. A **budget** is money or tokens per month, **reserved** before they are spent. A **workflow** is a
//! set of jobs some of which run **after** others, their **parents**. A **live** value is an operator's, set beside what
//! is configured.

#![forbid(unsafe_code)]

pub mod ahead;
pub mod audit;
pub mod backoff;
pub mod backup;
pub mod budget;
pub mod duration;
pub mod end;
pub mod entity;
pub mod id;
pub mod input;
pub mod job;
pub mod kind;
pub mod lane;
pub mod limit;
pub mod migration;
pub mod order;
pub mod outcome;
pub mod pack;
pub mod queue;
pub mod rate;
pub mod resource;
pub mod scale;
pub mod schedule;
pub mod state;
pub mod statement;
pub mod store;
pub mod sweep;
pub mod time;
pub mod unique;
pub mod workflow;

pub use backoff::Backoff;
pub use budget::BudgetSpec;
pub use entity::{EntityWrite, Strategy, TypeSpec};
pub use id::{JobId, KindId, LaneId, QueueId, ReservationId, Token, TypeId, WorkerId, WorkflowId};
pub use input::{Invalid, Problem};
pub use job::{
    Attempt, EntityRef, Idempotency, JobRecord, KeyUse, LeasedJob, LogLine, NewJob, Progress, RunAt,
};
pub use kind::KindSpec;
pub use outcome::{Outcome, Settlement, Verdict};
pub use queue::QueueSpec;
pub use rate::Rate;
pub use resource::Resource;
pub use state::JobState;
pub use store::{Store, StoreError, TxRef};
pub use time::Time;
pub use unique::{Existing, Meeting, OnConflict, Unique, UniqueUntil};
