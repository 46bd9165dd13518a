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

use crate::SqliteStore;

pub(crate) use act::retry_members;
pub(crate) use fate::{ended, follow};
pub(crate) use mend::inconsistent;

#[async_trait]
impl WorkflowStore for SqliteStore {
    async fn enqueue_workflow(&self, workflow: &NewWorkflow) -> Result<Started, StoreError> {
        let (workflow, rows) = (workflow.clone(), workflow.members.len());
        self.write("enqueue a workflow", rows, move |scope| enqueue::enqueue_workflow(scope, &workflow)).await
    }

    async fn enqueue_workflow_in(
        &self,
        tx: TxRef<'_>,
        workflow: &NewWorkflow,
    ) -> Result<Started, StoreError> {
        self.write_in("enqueue a workflow", tx, |scope| enqueue::enqueue_workflow(scope, workflow)).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowDetail>, StoreError> {
        let now = self.now_here();
        self.read("show a workflow", move |connection| read::workflow(connection, id, now)).await
    }

    async fn workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRecord>, StoreError> {
        let filter = *filter;
        self.read("list workflows", move |connection| read::workflows(connection, &filter)).await
    }

    async fn cancel_workflow(
        &self,
        id: WorkflowId,
        actor: Option<&Actor>,
    ) -> Result<Option<Bulk>, StoreError> {
        let actor = actor.cloned();
        self.write("cancel a workflow", 1, move |scope| act::cancel_workflow(scope, id, actor.as_ref())).await
    }

    async fn retry_workflow(
        &self,
        id: WorkflowId,
        actor: Option<&Actor>,
    ) -> Result<Option<Bulk>, StoreError> {
        let actor = actor.cloned();
        self.write("retry a workflow", 1, move |scope| act::retry_workflow(scope, id, actor.as_ref())).await
    }

    async fn parents(&self, job: JobId) -> Result<Vec<Parent>, StoreError> {
        self.read("read the results of parents", move |connection| read::parents(connection, job)).await
    }

    async fn repair_workflows(&self) -> Result<u64, StoreError> {
        let found = self.read("look for inconsistent workflows", mend::inconsistent).await?;
        if found.is_empty() {
            return Ok(0);
        }
        self.write("mend workflows", found.len(), move |scope| mend::repair_workflows(scope, &found)).await
    }
}
