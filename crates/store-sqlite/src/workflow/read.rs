//! Showing workflows, and the results of a job's parents.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::store::{Counts, MemberRecord, Parent, WorkflowDetail, WorkflowFilter, WorkflowRecord};
use windlass_core::workflow::{MemberStatus, OnFailure, WorkflowState};
use windlass_core::{JobId, JobState, Time, WorkflowId};

use super::fate::load;
use crate::error::{Answer, Fault};

const RECORD: &str = "select id, name, on_failure, state, created_at, ended_at from windlass_workflows";

pub(super) fn workflows(connection: &Connection, filter: &WorkflowFilter) -> Answer<Vec<WorkflowRecord>> {
    let before = filter.before.map_or(i64::MAX, |id| id.0);
    let mut statement = connection.prepare_cached(&format!(
        "{RECORD} where id < ?1 and (?2 is null or state = ?2) order by id desc limit ?3"
    ))?;
    let mut rows = statement.query((before, filter.state.map(WorkflowState::code), filter.limit))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(row)?);
    }
    for record in &mut found {
        record.counts = counts(connection, record.id)?;
    }
    Ok(found)
}

fn record(row: &Row<'_>) -> Answer<WorkflowRecord> {
    let id = WorkflowId(row.get(0)?);
    let broken = || Fault::corrupt(format!("workflow {id} has an unknown state or policy"));
    Ok(WorkflowRecord {
        id,
        name: row.get(1)?,
        on_failure: OnFailure::from_code(row.get(2)?).ok_or_else(broken)?,
        state: WorkflowState::from_code(row.get(3)?).ok_or_else(broken)?,
        created_at: Time(row.get(4)?),
        ended_at: row.get::<_, Option<i64>>(5)?.map(Time),
        counts: Counts::default(),
    })
}

fn counts(connection: &Connection, id: WorkflowId) -> Answer<Counts> {
    let mut statement = connection.prepare_cached(
        "select state, count(*) from windlass_workflow_jobs where workflow = ?1 group by state",
    )?;
    let mut rows = statement.query([id.0])?;
    let mut counts = Counts::default();
    while let Some(row) = rows.next()? {
        let (state, jobs): (i16, i64) = (row.get(0)?, row.get(1)?);
        counts.add(status(state)?, jobs.unsigned_abs());
    }
    Ok(counts)
}

fn status(code: i16) -> Answer<MemberStatus> {
    MemberStatus::from_code(code).ok_or_else(|| Fault::corrupt(format!("a workflow's job has state {code}")))
}

pub(super) fn workflow(connection: &Connection, id: WorkflowId, now: Time) -> Answer<Option<WorkflowDetail>> {
    let mut statement = connection.prepare_cached(&format!("{RECORD} where id = ?1"))?;
    let mut rows = statement.query([id.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut workflow = record(row)?;
    workflow.counts = counts(connection, id)?;
    let Some(flow) = load(connection, id)? else { return Ok(None) };
    let mut seen = HashMap::new();
    let mut statement = connection.prepare_cached(
        "select w.no, w.name, k.name, r.run_at
         from windlass_workflow_jobs w left join windlass_jobs j on j.id = w.job_id
         left join windlass_kinds k on k.id = j.kind left join windlass_ready r on r.id = w.job_id
         where w.workflow = ?1",
    )?;
    let mut rows = statement.query([id.0])?;
    while let Some(row) = rows.next()? {
        let kind: Option<String> = row.get(2)?;
        let run_at: Option<i64> = row.get(3)?;
        seen.insert(row.get::<_, u32>(0)? as usize, (row.get::<_, String>(1)?, kind, run_at));
    }
    let mut members = Vec::with_capacity(flow.members.len());
    for (no, (member, place)) in flow.members.into_iter().zip(flow.places).enumerate() {
        let (name, kind, run_at) = seen.remove(&no).unwrap_or_default();
        let state = match (member.status, run_at) {
            (MemberStatus::Ended(state), _) => state,
            (MemberStatus::Waits, _) => JobState::Scheduled,
            (MemberStatus::Live, Some(at)) if at > now.0 => JobState::Scheduled,
            (MemberStatus::Live, Some(_)) => JobState::Pending,
            (MemberStatus::Live, None) => JobState::Running,
        };
        members.push(MemberRecord {
            name,
            job: place.job,
            kind: kind.unwrap_or_default(),
            state,
            waits: member.status == MemberStatus::Waits,
            parents: member.parents,
            undoes: member.undoes,
            goes_on: member.goes_on,
        });
    }
    Ok(Some(WorkflowDetail { workflow, members }))
}

pub(super) fn parents(connection: &Connection, job: JobId) -> Answer<Vec<Parent>> {
    let own: Option<(i64, String, Option<i64>)> = connection
        .prepare_cached("select workflow, parents, undoes from windlass_workflow_jobs where job_id = ?1")?
        .query_row([job.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((workflow, parents, undoes)) = own else { return Ok(Vec::new()) };
    let wanted = undoes.map_or(parents, |no| format!("[{no}]"));
    let mut statement = connection.prepare_cached(
        "select p.name, p.job_id, p.state, f.result
         from json_each(?2) e cross join windlass_workflow_jobs p on p.workflow = ?1 and p.no = e.value
         left join windlass_finished f on f.id = p.job_id order by p.no",
    )?;
    let mut rows = statement.query((workflow, wanted))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let state = match status(row.get(2)?)? {
            MemberStatus::Ended(state) => state,
            MemberStatus::Live => JobState::Running,
            MemberStatus::Waits => JobState::Scheduled,
        };
        found.push(Parent { name: row.get(0)?, job: JobId(row.get(1)?), state, result: row.get(3)? });
    }
    Ok(found)
}
