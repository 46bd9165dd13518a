//! Questions and answers about workflows: the fourth part of the store contract.

use async_trait::async_trait;

use super::{Bulk, TxRef};
use crate::audit::Actor;
use crate::id::WorkflowId;
use crate::workflow::{NewWorkflow, OnFailure, Standing, WorkflowState};
use crate::{JobId, JobState, StoreError, Time};

/// However a job of a workflow ends, in [`super::Store::settle`], [`super::Store::act`] or [`super::Store::reclaim`], what
/// follows from that ([`crate::workflow::advance`]) is written in the same transaction: children go into their queues, are
/// cancelled, or the next job is undone. A retry of one of its jobs is [`crate::workflow::again`]'s. Those that wait are shown
/// as scheduled, have no `run_at`, and cannot be hurried.
#[async_trait]
pub trait WorkflowStore: Send + Sync {
    /// All of it or nothing. The jobs are in the order of the members.
    async fn enqueue_workflow(&self, workflow: &NewWorkflow) -> Result<Started, StoreError>;

    /// The same inside the caller's transaction: nothing is visible, and nobody is woken, before its commit.
    async fn enqueue_workflow_in(&self, tx: TxRef<'_>, workflow: &NewWorkflow)
    -> Result<Started, StoreError>;

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowDetail>, StoreError>;

    /// Newest first; `before` is the last one of the page before.
    async fn workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRecord>, StoreError>;

    /// Cancels all of its jobs that have not ended; those that run are asked to stop. `None` when there is no such
    /// workflow.
    async fn cancel_workflow(
        &self,
        id: WorkflowId,
        actor: Option<&Actor>,
    ) -> Result<Option<Bulk>, StoreError>;

    /// Retries all of its jobs that failed, died or were cancelled; completed ones stay. `None` when there is no such workflow.
    async fn retry_workflow(&self, id: WorkflowId, actor: Option<&Actor>)
    -> Result<Option<Bulk>, StoreError>;

    /// Those a job ran after, or the one that it undoes, with their results; empty for a job that has none.
    async fn parents(&self, job: JobId) -> Result<Vec<Parent>, StoreError>;

    /// Workflows that stand otherwise than their jobs do, such as when a process of an older version ended one of them, put
    /// right; some hundreds at most. Returns how many.
    async fn mend_workflows(&self) -> Result<u64, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub id: WorkflowId,
    pub jobs: Vec<JobId>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct WorkflowFilter {
    pub state: Option<WorkflowState>,
    /// Only workflows with smaller ids.
    pub before: Option<WorkflowId>,
    pub limit: u32,
}

/// A workflow as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowRecord {
    pub id: WorkflowId,
    pub name: Option<String>,
    pub on_failure: OnFailure,
    pub state: WorkflowState,
    pub created_at: Time,
    pub ended_at: Option<Time>,
    pub counts: Counts,
}

/// Jobs of a workflow by how they stand, those that undo others included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub waiting: u64,
    /// In a queue or running.
    pub live: u64,
    pub completed: u64,
    pub failed: u64,
    pub dead_letter: u64,
    pub cancelled: u64,
}

impl Counts {
    pub fn add(&mut self, standing: Standing, jobs: u64) {
        let place = match standing {
            Standing::Waits => &mut self.waiting,
            Standing::Live => &mut self.live,
            Standing::Ended(JobState::Completed) => &mut self.completed,
            Standing::Ended(JobState::Failed) => &mut self.failed,
            Standing::Ended(JobState::DeadLetter) => &mut self.dead_letter,
            Standing::Ended(_) => &mut self.cancelled,
        };
        *place += jobs;
    }

    pub fn total(&self) -> u64 {
        let Counts { waiting, live, completed, failed, dead_letter, cancelled } = self;
        waiting + live + completed + failed + dead_letter + cancelled
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowDetail {
    pub workflow: WorkflowRecord,
    /// Parents before their children, those that undo others last.
    pub members: Vec<MemberRecord>,
}

/// A job of a workflow as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    pub name: String,
    pub job: JobId,
    pub kind: String,
    /// Of the job, not of its place: pending and running are told apart.
    pub state: JobState,
    /// It waits for its parents.
    pub waits: bool,
    /// Places in [`WorkflowDetail::members`].
    pub parents: Vec<usize>,
    pub undoes: Option<usize>,
    /// Its failure is passed over.
    pub goes_on: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub name: String,
    pub job: JobId,
    pub state: JobState,
    /// As it was stored; `None` without one, and once the job was deleted.
    pub result: Option<Vec<u8>>,
}
