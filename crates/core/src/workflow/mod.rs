//! Workflows: jobs that wait for others.
//!
//! A **workflow** is a set of jobs written together, each of which may name others it runs after: its **parents**. A job that
//! waits for parents stands in no queue; the transaction that ends its last parent puts it into its own. What the end of a job
//! means for the others is [`advance`]'s, what a retry wakes up again is [`again`]'s, and what may be written at all is
//! [`check`]'s. All of it is decided from how every job of the workflow stands, so deciding twice changes nothing.
//!
//! Owns the rules and the words; the stores ask under the workflow's lock and write down the answer.

mod advance;
mod again;
mod check;
mod new;
mod state;

pub use advance::{Advance, Member, Standing, advance, only_releases};
pub use again::{Again, again};
pub use check::{MAX_EDGES, MAX_JOBS, check};
pub use new::{NewMember, NewWorkflow, Undo};
pub use state::{OnFailure, UnknownPolicy, UnknownWorkflowState, WorkflowState};

/// The name of the job that undoes `name`.
pub fn undo_name(name: &str) -> String {
    format!("undo:{name}")
}
