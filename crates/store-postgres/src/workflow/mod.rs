//! Workflows: sets of jobs that wait for each other.
//!
//! Owns: the tables of workflows and their jobs, and the ready rows of jobs that wait for their parents.
//! `core::workflow` decides what follows from the states of the jobs; it is written here, in the transaction of the
//! change.

mod act;
mod enqueue;
mod fate;
mod mend;
mod read;

use async_trait::async_trait;
use windlass_core::audit::Actor;
use windlass_core::store::{
    Bulk, Parent, Started, WorkflowDetail, WorkflowFilter, WorkflowRecord, WorkflowStore,
};
use windlass_core::workflow::NewWorkflow;
use windlass_core::{JobId, StoreError, TxRef, WorkflowId};

use crate::PostgresStore;

#[cfg(test)]
pub(crate) use fate::RELEASABLE;
pub(crate) use fate::Woken;

type Result<T> = std::result::Result<T, StoreError>;

/// How often a transaction that lost a race is retried.
const TRIES: usize = 5;

#[async_trait]
impl WorkflowStore for PostgresStore {
    async fn enqueue_workflow(&self, workflow: &NewWorkflow) -> Result<Started> {
        self.start_workflow(workflow).await
    }

    async fn enqueue_workflow_in(&self, tx: TxRef<'_>, workflow: &NewWorkflow) -> Result<Started> {
        self.start_workflow_in(tx, workflow).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowDetail>> {
        self.show_workflow(id).await
    }

    async fn workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRecord>> {
        self.list_workflows(filter).await
    }

    async fn cancel_workflow(&self, id: WorkflowId, actor: Option<&Actor>) -> Result<Option<Bulk>> {
        self.write_cancel(id, actor).await
    }

    async fn retry_workflow(&self, id: WorkflowId, actor: Option<&Actor>) -> Result<Option<Bulk>> {
        self.write_retry(id, actor).await
    }

    async fn parents(&self, job: JobId) -> Result<Vec<Parent>> {
        self.parents_of(job).await
    }

    async fn repair_workflows(&self) -> Result<u64> {
        self.mend_inconsistent().await
    }
}
