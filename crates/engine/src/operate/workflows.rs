//! Cancel and retry of whole workflows.

use windlass_core::WorkflowId;
use windlass_core::audit::Actor;
use windlass_core::store::{Bulk, WorkflowDetail};

use super::OperateError;
use crate::Client;
use crate::bulk::touched;

impl Client {
    /// Cancels the jobs that have not ended; workers of running jobs are asked to stop them.
    pub async fn cancel_workflow(
        &self,
        id: WorkflowId,
        actor: &Actor,
    ) -> Result<WorkflowDetail, OperateError> {
        let done = self.store().cancel_workflow(id, Some(actor)).await?;
        self.changed(id, done, "cancel needs one that has not ended").await
    }

    /// Runs failed, dead and cancelled jobs again; completed jobs stay as they are.
    pub async fn retry_workflow(
        &self,
        id: WorkflowId,
        actor: &Actor,
    ) -> Result<WorkflowDetail, OperateError> {
        let done = self.store().retry_workflow(id, Some(actor)).await?;
        let needs = "retry needs jobs that failed, died or were cancelled, and none that were undone";
        self.changed(id, done, needs).await
    }

    async fn changed(
        &self,
        id: WorkflowId,
        done: Option<Bulk>,
        needs: &str,
    ) -> Result<WorkflowDetail, OperateError> {
        let found = self.store().workflow(id).await?;
        let (Some(done), Some(found)) = (done, found) else {
            let why = format!("there is no workflow {id} here; it may have been cleaned up");
            return Err(OperateError::Missing(why));
        };
        if touched(&done) == 0 {
            let why = format!("workflow {id} is {}; {needs}", found.workflow.state);
            return Err(OperateError::Conflict { code: "wrong_state", why });
        }
        Ok(found)
    }
}
