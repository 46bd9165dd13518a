//! Workflows that do not match the states of their jobs: a process of a version without workflows ended one of
//! them.

use rusqlite::Connection;
use windlass_core::WorkflowId;

use super::fate::follow_one;
use crate::error::Answer;
use crate::scope::Scope;

/// A job of theirs ended unnoticed, or waits although all its parents have ended.
const INCONSISTENT: &str = "
    select w.workflow from windlass_workflow_jobs w
    where w.state in (0, 1) and exists (select 1 from windlass_finished f where f.id = w.job_id)
    union
    select w.workflow from windlass_workflow_jobs w
    where w.state in (0, 1) and w.state = 0 and not exists (
        select 1 from json_each(w.parents) e
        join windlass_workflow_jobs p on p.workflow = w.workflow and p.no = e.value where p.state in (0, 1))
    limit 200";

const NOTICE: &str = "
    update windlass_workflow_jobs set state = (select f.state from windlass_finished f where f.id = job_id)
    where workflow = ?1 and state in (0, 1) and exists (select 1 from windlass_finished f where f.id = job_id)";

pub(crate) fn inconsistent(connection: &Connection) -> Answer<Vec<WorkflowId>> {
    let mut statement = connection.prepare_cached(INCONSISTENT)?;
    let rows = statement.query_map([], |row| row.get(0).map(WorkflowId))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn repair_workflows(scope: &mut Scope<'_>, found: &[WorkflowId]) -> Answer<u64> {
    for id in found {
        scope.connection.prepare_cached(NOTICE)?.execute([id.0])?;
        follow_one(scope, *id)?;
    }
    Ok(found.len() as u64)
}
