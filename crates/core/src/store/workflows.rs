//! The workflow part of the store contract.

use async_trait::async_trait;

use super::{Bulk, TxRef};
use crate::audit::Actor;
use crate::id::WorkflowId;
use crate::workflow::{MemberStatus, NewWorkflow, OnFailure, WorkflowState};
use crate::{JobId, JobState, StoreError, Time};

/// When a job of a workflow ends, its consequences ([`crate::workflow::advance`]) are written in the same transaction:
/// children are enqueued or cancelled, or the next job is undone. This holds in [`super::Store::settle`],
/// [`super::Store::act`] and [`super::Store::reclaim`]. [`crate::workflow::again`] decides what a retry does. Jobs that
/// wait for parents are listed as scheduled, have no `run_at`, and cannot be made to run early.
#[async_trait]
pub trait WorkflowStore: Send + Sync {
    /// All or nothing. The jobs are in the order of the members.
    async fn enqueue_workflow(&self, workflow: &NewWorkflow) -> Result<Started, StoreError>;

    /// Like [`WorkflowStore::enqueue_workflow`], in the caller's transaction. Until that commits, nothing is visible
    /// and no worker is woken.
    async fn enqueue_workflow_in(&self, tx: TxRef<'_>, workflow: &NewWorkflow)
    -> Result<Started, StoreError>;

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowDetail>, StoreError>;

    /// Newest first.
    async fn workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRecord>, StoreError>;

    /// Cancels all jobs that have not ended; workers of running ones are asked to stop. `None` if there is no such
    /// workflow.
    async fn cancel_workflow(
        &self,
        id: WorkflowId,
        actor: Option<&Actor>,
    ) -> Result<Option<Bulk>, StoreError>;

    /// Retries all jobs that failed, died or were cancelled. `None` if there is no such workflow.
    async fn retry_workflow(&self, id: WorkflowId, actor: Option<&Actor>)
    -> Result<Option<Bulk>, StoreError>;

    /// The parents of a job, or the job it undoes, with their results. Empty if there are none.
    async fn parents(&self, job: JobId) -> Result<Vec<Parent>, StoreError>;

    /// Repairs workflows whose state does not match their jobs, for example after a process of an older version ended
    /// one. Handles some hundreds per call and returns how many.
    async fn repair_workflows(&self) -> Result<u64, StoreError>;
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

/// Number of jobs by status, including compensating jobs.
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
    pub fn add(&mut self, status: MemberStatus, jobs: u64) {
        let place = match status {
            MemberStatus::Waits => &mut self.waiting,
            MemberStatus::Live => &mut self.live,
            MemberStatus::Ended(JobState::Completed) => &mut self.completed,
            MemberStatus::Ended(JobState::Failed) => &mut self.failed,
            MemberStatus::Ended(JobState::DeadLetter) => &mut self.dead_letter,
            MemberStatus::Ended(_) => &mut self.cancelled,
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
    /// Parents before their children, compensating jobs last.
    pub members: Vec<MemberRecord>,
}

/// A job of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    pub name: String,
    pub job: JobId,
    pub kind: String,
    /// State of the job. Unlike its status in the workflow, it distinguishes pending from running.
    pub state: JobState,
    /// It waits for its parents.
    pub waits: bool,
    /// Indexes into [`WorkflowDetail::members`].
    pub parents: Vec<usize>,
    pub undoes: Option<usize>,
    /// If it fails, the workflow continues.
    pub goes_on: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub name: String,
    pub job: JobId,
    pub state: JobState,
    /// `None` if it has no result or the job was deleted.
    pub result: Option<Vec<u8>>,
}
