//! A workflow, and a workflow with its jobs and dependencies.

use serde_json::{Value, json};
use windlass_core::store::{MemberRecord, WorkflowDetail, WorkflowRecord};
use windlass_core::workflow::{OnFailure, WorkflowState};

use super::{Id, Stamp, State};
use crate::shape;
use crate::shape::{Schemas, Shape};

shape! {
    /// Jobs enqueued together, some of which run after others.
    pub struct WorkflowView as "Workflow" {
        pub id: Id,
        pub name: Option<String>,
        /// stop, continue or compensate.
        pub on_failure: &'static str,
        pub state: WorkflowStateName,
        pub created_at: Stamp,
        /// null while a job waits or runs.
        pub ended_at: Option<Stamp>,
        pub counts: CountsView,
    }
}

shape! {
    /// Jobs of a workflow by status, including compensating jobs.
    pub struct CountsView as "WorkflowCounts" {
        pub total: u64,
        /// Waiting for other jobs.
        pub waiting: u64,
        /// In a queue or running.
        pub live: u64,
        pub completed: u64,
        pub failed: u64,
        pub dead_letter: u64,
        pub cancelled: u64,
    }
}

shape! {
    /// A workflow with its jobs.
    pub struct WorkflowDetailView as "WorkflowDetail" {
        #[serde(flatten)]
        pub workflow: WorkflowView,
        /// Jobs come after those they depend on; compensating jobs come last.
        pub jobs: Vec<WorkflowJobView>,
    }
}

shape! {
    /// One job of a workflow.
    pub struct WorkflowJobView as "WorkflowJob" {
        pub name: String,
        pub id: Id,
        /// Empty once the job was cleaned up.
        pub kind: String,
        pub state: State,
        /// In no queue until the jobs it runs after have ended.
        pub waiting: bool,
        /// Names of the jobs it runs after.
        pub after: Vec<String>,
        /// What its own failure means: stop or continue.
        pub on_failure: &'static str,
        /// The name of the job that this one undoes.
        pub undoes: Option<String>,
    }
}

#[derive(Clone, Copy, Debug)]
pub struct WorkflowStateName(pub WorkflowState);

impl serde::Serialize for WorkflowStateName {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

impl Shape for WorkflowStateName {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "enum": WorkflowState::ALL.map(WorkflowState::name) })
    }
}

impl From<&WorkflowRecord> for WorkflowView {
    fn from(record: &WorkflowRecord) -> WorkflowView {
        let counts = &record.counts;
        WorkflowView {
            id: Id(record.id.0),
            name: record.name.clone(),
            on_failure: record.on_failure.name(),
            state: WorkflowStateName(record.state),
            created_at: Stamp(record.created_at),
            ended_at: record.ended_at.map(Stamp),
            counts: CountsView {
                total: counts.total(),
                waiting: counts.waiting,
                live: counts.live,
                completed: counts.completed,
                failed: counts.failed,
                dead_letter: counts.dead_letter,
                cancelled: counts.cancelled,
            },
        }
    }
}

impl From<&WorkflowDetail> for WorkflowDetailView {
    fn from(detail: &WorkflowDetail) -> WorkflowDetailView {
        let name = |place: &usize| detail.members.get(*place).map_or_else(String::new, |m| m.name.clone());
        let job = |member: &MemberRecord| WorkflowJobView {
            name: member.name.clone(),
            id: Id(member.job.0),
            kind: member.kind.clone(),
            state: State(member.state),
            waiting: member.waits,
            after: member.parents.iter().map(name).collect(),
            on_failure: if member.goes_on { OnFailure::Continue } else { OnFailure::Stop }.name(),
            undoes: member.undoes.as_ref().map(name),
        };
        WorkflowDetailView {
            workflow: WorkflowView::from(&detail.workflow),
            jobs: detail.members.iter().map(job).collect(),
        }
    }
}
