//! Writing workflows: all of its jobs wait at first, then those that wait for nobody are let go.

use windlass_core::queue::NO_QUEUE;
use windlass_core::store::Started;
use windlass_core::time::micros;
use windlass_core::workflow::{NewMember, NewWorkflow};
use windlass_core::{JobId, RunAt, WorkflowId};

use super::fate::follow_one;
use crate::enqueue::INSERT_READY;
use crate::error::{Answer, Fault};
use crate::row::tags_text;
use crate::scope::Scope;

/// The `run_at` of a job that waits.
pub(super) const NEVER: i64 = i64::MAX;

pub(super) fn enqueue_workflow(scope: &mut Scope<'_>, workflow: &NewWorkflow) -> Answer<Started> {
    let id = WorkflowId(scope.next_job_id()?);
    scope
        .connection
        .prepare_cached(
            "insert into windlass_workflows (id, name, on_failure, created_at) values (?1, ?2, ?3, ?4)",
        )?
        .execute((id.0, &workflow.name, workflow.on_failure.code(), scope.now.0))?;
    let mut jobs = Vec::with_capacity(workflow.members.len());
    for (no, (member, children)) in workflow.members.iter().zip(workflow.children()).enumerate() {
        jobs.push(insert(scope, id, no, member, &children, None)?);
    }
    follow_one(scope, id)?;
    Ok(Started { id, jobs })
}

/// A job that waits, at place `no`.
pub(super) fn insert(
    scope: &mut Scope<'_>,
    workflow: WorkflowId,
    no: usize,
    member: &NewMember,
    children: &[usize],
    undoes: Option<usize>,
) -> Answer<JobId> {
    let id = JobId(scope.next_job_id()?);
    let NewMember { name, job, parents, goes_on, undo } = member;
    let entity = job.entity.as_ref();
    scope
        .connection
        .prepare_cached(
            "insert into windlass_jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us,
                 parent_id, payload, concurrency_key, tags, entity_type, entity_id, lane)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute((
            id.0,
            job.kind.0,
            job.queue.0,
            job.priority,
            job.max_attempts,
            scope.now.0,
            job.timeout.map(micros),
            workflow.0,
            &job.payload,
            &job.concurrency_key,
            tags_text(&job.tags),
            entity.map(|e| &e.entity_type),
            entity.map(|e| &e.entity_id),
            job.lane().map(|lane| lane.0),
        ))?;
    wait(scope, id, job.kind.0, job.priority)?;
    let (run_at, delay) = match job.run_at {
        RunAt::Now => (None, None),
        RunAt::At(at) => (Some(at.0), None),
        RunAt::In(delay) => (None, Some(micros(delay))),
    };
    let places = |of: &[usize]| serde_json::to_string(of).map_err(|error| Fault::corrupt(error.to_string()));
    scope
        .connection
        .prepare_cached(
            "insert into windlass_workflow_jobs (workflow, no, job_id, name, goes_on, parents, undoes, run_at, delay_us,
                 undo, undo_payload, children)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute((
            workflow.0,
            no as i64,
            id.0,
            name,
            goes_on,
            places(parents)?,
            undoes.map(|no| no as i64),
            run_at,
            delay,
            undo.as_ref().map(|undo| undo.to_kept()),
            undo.as_ref().map(|undo| &undo.payload),
            places(children)?,
        ))?;
    Ok(id)
}

/// Into no queue.
pub(super) fn wait(scope: &Scope<'_>, id: JobId, kind: i32, priority: u8) -> Answer<()> {
    let row = (NO_QUEUE.0, priority, NEVER, id.0, kind, 0, 0, None::<String>, None::<i64>);
    scope.connection.prepare_cached(INSERT_READY)?.execute(row)?;
    Ok(())
}
