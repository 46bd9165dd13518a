//! Workflows: jobs that wait for others.
//!
//! A **workflow** is a set of jobs enqueued together. Each may run after others, its **parents**. A job that waits for
//! parents is in no queue; the transaction that ends its last parent enqueues it. [`advance`] decides what the end of a
//! job means for the others, [`again`] what a retry brings back, and [`check`] which workflows are valid. All three
//! depend only on the status of every job, so applying them twice changes nothing.
//!
//! Pure: a store calls them under the workflow's lock and writes the result.

mod advance;
mod again;
mod check;
mod new;
mod state;

pub use advance::{Advance, Member, MemberStatus, advance, only_releases};
pub use again::{Again, again};
pub use check::{MAX_EDGES, MAX_JOBS, check};
pub use new::{NewMember, NewWorkflow, Undo};
pub use state::{OnFailure, UnknownPolicy, UnknownWorkflowState, WorkflowState};

/// The name of the job that undoes `name`.
pub fn undo_name(name: &str) -> String {
    format!("undo:{name}")
}
