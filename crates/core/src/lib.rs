//! Shared vocabulary, rules and the store contract. Every other crate depends on this one.
//!
//! Owns identifiers, time, the state machine, retry and crash policy, input limits, and the [`store::Store`] trait. It
//! does no IO, reads no clock and starts no task. Every rule is a pure function, so both databases, the CLI and the
//! tests apply the same one.
//!
//! Glossary, one word per thing:
//!
//! - A **job** is a durable unit of work. It has one **kind**, and a kind belongs to one **queue**.
//! - A worker **leases** jobs. Each claim gets a **token** greater than all earlier ones. The worker **settles** each
//!   attempt.
//! - A **dead letter** is a job that ran out of attempts. A **suspect** is a job whose worker died while it was leased;
//!   its suspicion decides how it runs again ([`sweep`]).
//! - A **lane** is all jobs of a kind that share a concurrency key. A ready or running job holds one of the lane's
//!   **slots**; the others are **blocked**. A **lane check** asks the next claim to fill free slots.
//! - A **resource** is something a process has few of, such as browsers. A **permit** is one unit of it.
//! - A **rate token** is the right to start one job of a rate-limited kind.
//! - An **entity** is application data with a type, an id and a version that grows with each write. Its **box** is the
//!   job that computes the embedding of its content.
//! - A **tick** is one firing of a **schedule**.
//! - A **budget** is money or tokens per month, **reserved** before they are spent.
//! - A **workflow** is a set of jobs. Some run **after** others, their **parents**.
//! - A **live** value is one an operator set at run time. It overrides the configured one.

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
