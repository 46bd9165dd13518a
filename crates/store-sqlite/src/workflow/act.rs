//! Operator actions on workflows, and on jobs that belong to one.

use std::collections::BTreeMap;

use rusqlite::OptionalExtension;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::store::{Bulk, Wake};
use windlass_core::workflow::{MemberStatus, WorkflowState, again};
use windlass_core::{JobId, WorkflowId};

use super::enqueue::wait;
use super::fate::{Flow, follow_one, load, set_standing};
use crate::act::{cancel, keep_last_attempt};
use crate::audit;
use crate::error::Answer;
use crate::scope::Scope;
use crate::settle::{Waiting, waiting_columns};

pub(super) fn cancel_workflow(
    scope: &mut Scope<'_>,
    id: WorkflowId,
    actor: Option<&Actor>,
) -> Answer<Option<Bulk>> {
    let Some(flow) = load(scope.connection, id)? else { return Ok(None) };
    let mut bulk = Bulk::default();
    for (member, place) in flow.members.iter().zip(&flow.places) {
        match member.status {
            MemberStatus::Ended(_) => bulk.skipped += 1,
            _ => cancel(scope, place.job, &mut bulk)?,
        }
    }
    super::follow(scope)?;
    let states = [flow.state, state_now(scope, id)?.unwrap_or(flow.state)];
    audit::note(scope, actor, NewAudit::workflow_cancelled(id, states, &bulk).as_ref())?;
    Ok(Some(bulk))
}

pub(super) fn retry_workflow(
    scope: &mut Scope<'_>,
    id: WorkflowId,
    actor: Option<&Actor>,
) -> Answer<Option<Bulk>> {
    let Some(flow) = load(scope.connection, id)? else { return Ok(None) };
    let all: Vec<usize> = (0..flow.members.len()).collect();
    let revived = retry(scope, id, &flow, &all)?;
    let mut bulk = Bulk { done: revived.len() as u64, ..Bulk::default() };
    bulk.skipped = flow.members.len() as u64 - bulk.done;
    let states = [flow.state, state_now(scope, id)?.unwrap_or(flow.state)];
    audit::note(scope, actor, NewAudit::workflow_retried(id, states, &bulk).as_ref())?;
    Ok(Some(bulk))
}

fn state_now(scope: &Scope<'_>, id: WorkflowId) -> Answer<Option<WorkflowState>> {
    Ok(load(scope.connection, id)?.map(|flow| flow.state))
}

/// Retries those of `ids` that belong to workflows and returns the others. A job that was revived because of
/// another is counted only if it is one of `ids`.
pub(crate) fn retry_members(scope: &mut Scope<'_>, ids: &[JobId], bulk: &mut Bulk) -> Answer<Vec<JobId>> {
    let mut plain = Vec::with_capacity(ids.len());
    let mut members: BTreeMap<WorkflowId, Vec<JobId>> = BTreeMap::new();
    for id in ids {
        let workflow: Option<i64> = scope
            .connection
            .prepare_cached(
                "select w.id from windlass_workflow_jobs j join windlass_workflows w on w.id = j.workflow
                 where j.job_id = ?1",
            )?
            .query_row([id.0], |row| row.get(0))
            .optional()?;
        match workflow {
            Some(workflow) => members.entry(WorkflowId(workflow)).or_default().push(*id),
            None => plain.push(*id),
        }
    }
    for (workflow, ids) in members {
        let Some(flow) = load(scope.connection, workflow)? else { continue };
        let wanted: Vec<usize> =
            (0..flow.places.len()).filter(|no| ids.contains(&flow.places[*no].job)).collect();
        let revived = retry(scope, workflow, &flow, &wanted)?;
        // It is already in its queue, due later: hurried like any other job.
        let live = |no: &&usize| flow.members[**no].status == MemberStatus::Live;
        plain.extend(wanted.iter().filter(live).map(|no| flow.places[*no].job));
        let waits = wanted.iter().filter(|no| !live(no));
        let (done, left): (Vec<&usize>, Vec<&usize>) = waits.partition(|no| revived.contains(no));
        bulk.done += done.len() as u64;
        bulk.skipped += left.len() as u64;
    }
    Ok(plain)
}

fn retry(scope: &mut Scope<'_>, id: WorkflowId, flow: &Flow, wanted: &[usize]) -> Answer<Vec<usize>> {
    let mut revived = Vec::new();
    for no in again(&flow.members, flow.on_failure, wanted).revive {
        if revive(scope, id, no, flow.places[no].job)? {
            revived.push(no);
        }
    }
    follow_one(scope, id)?;
    Ok(revived)
}

/// Moves an ended job back to waiting. Returns false when it was deleted.
fn revive(scope: &mut Scope<'_>, workflow: WorkflowId, no: usize, id: JobId) -> Answer<bool> {
    let there: bool = scope
        .connection
        .prepare_cached("select exists (select 1 from windlass_finished where id = ?1)")?
        .query_row([id.0], |row| row.get(0))?;
    if !there {
        return Ok(false);
    }
    let Waiting { kind, priority, .. } = waiting_columns(scope.connection, id)?;
    keep_last_attempt(scope, id)?;
    scope.connection.prepare_cached("delete from windlass_progress where job_id = ?1")?.execute([id.0])?;
    wait(scope, id, kind, priority)?;
    scope
        .connection
        .prepare_cached(
            "update windlass_workflow_jobs set run_at = null, delay_us = null where workflow = ?1 and no = ?2",
        )?
        .execute((workflow.0, no as i64))?;
    set_standing(scope, workflow, no, MemberStatus::Waits)?;
    scope.wake(Wake::Any);
    Ok(true)
}
