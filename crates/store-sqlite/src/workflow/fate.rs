//! What the end of a job does to its workflow, written in the same transaction. Most ends can only release children
//! of the ended job (`core::workflow::only_releases`) and read nothing else. For the others
//! `core::workflow::advance` gets all jobs.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::store::Wake;
use windlass_core::workflow::{
    Member, MemberStatus, NewMember, OnFailure, Undo, WorkflowState, advance, only_releases, undo_name,
};
use windlass_core::{JobId, JobState, QueueId, Time, WorkflowId};

use super::enqueue::insert;
use crate::end::{End, finish};
use crate::error::{Answer, Fault};
use crate::lane::{check, stored_queue};
use crate::scope::Scope;
use crate::settle::{Waiting, waiting_columns};

/// The job with this number, if it waits and all its parents have ended.
const RELEASABLE: &str = "
    select c.job_id, c.name, c.run_at, c.delay_us from windlass_workflow_jobs c
    where c.workflow = ?1 and c.no = ?2 and c.state = 0 and not exists (
        select 1 from json_each(c.parents) e
        cross join windlass_workflow_jobs p on p.workflow = c.workflow and p.no = e.value
        where p.state in (0, 1))";

const OPEN: &str =
    "select exists (select 1 from windlass_workflow_jobs where workflow = ?1 and state in (0, 1))";

/// A workflow, as the rules of `core` see it.
pub(super) struct Flow {
    pub(super) on_failure: OnFailure,
    pub(super) state: WorkflowState,
    pub(super) members: Vec<Member>,
    pub(super) places: Vec<Place>,
}

/// Columns of a member that the rules do not need.
pub(super) struct Place {
    pub(super) job: JobId,
    name: String,
    run_at: Option<i64>,
    delay_us: Option<i64>,
}

impl Place {
    fn starts(&self, now: Time) -> i64 {
        let at = self.run_at.unwrap_or(now.0);
        now.0.saturating_add(self.delay_us.unwrap_or(0)).max(at)
    }
}

/// Records how a job ended. Does nothing for a job without a workflow.
pub(crate) fn ended(scope: &mut Scope<'_>, id: JobId, state: JobState) -> Answer<()> {
    type Row = (i64, bool, bool, Option<String>);
    let member: Option<Row> = scope
        .connection
        .prepare_cached(
            "update windlass_workflow_jobs set state = ?2 where job_id = ?1
             returning workflow, goes_on, undoes is not null, children",
        )?
        .query_row((id.0, MemberStatus::Ended(state).code()), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((workflow, goes_on, undoes, children)) = member else { return Ok(()) };
    let children = children.filter(|_| only_releases(state, goes_on) && !undoes);
    let moved = scope.moved(WorkflowId(workflow));
    match (moved.as_mut(), children) {
        (Some(below), Some(children)) => below.extend(places(&children)?),
        _ => *moved = None,
    }
    Ok(())
}

/// Advances every workflow of which a job ended in this call.
pub(crate) fn follow(scope: &mut Scope<'_>) -> Answer<()> {
    for (workflow, below) in scope.take_moved() {
        match below {
            Some(below) => follow_near(scope, workflow, below)?,
            None => follow_one(scope, workflow)?,
        }
    }
    Ok(())
}

/// Releases those of `below` whose parents have all ended.
fn follow_near(scope: &mut Scope<'_>, id: WorkflowId, below: BTreeSet<usize>) -> Answer<()> {
    for no in below {
        let ripe = scope
            .connection
            .prepare_cached(RELEASABLE)?
            .query_row((id.0, no as i64), |row| {
                Ok(Place {
                    job: JobId(row.get(0)?),
                    name: row.get(1)?,
                    run_at: row.get(2)?,
                    delay_us: row.get(3)?,
                })
            })
            .optional()?;
        if let Some(place) = ripe {
            release(scope, id, no, &place)?;
        }
    }
    let open: bool = scope.connection.prepare_cached(OPEN)?.query_row([id.0], |row| row.get(0))?;
    if open { Ok(()) } else { follow_one(scope, id) }
}

pub(super) fn follow_one(scope: &mut Scope<'_>, id: WorkflowId) -> Answer<()> {
    loop {
        let Some(flow) = load(scope.connection, id)? else { return Ok(()) };
        let next = advance(&flow.members, flow.on_failure);
        for no in next.release {
            release(scope, id, no, &flow.places[no])?;
        }
        for no in next.cancel {
            cancel(scope, id, no, &flow.places[no])?;
        }
        if next.state != flow.state {
            set_state(scope, id, next.state)?;
        }
        match next.undo {
            Some(no) => undo(scope, id, &flow, no)?,
            None => return Ok(()),
        }
    }
}

pub(super) fn load(connection: &Connection, id: WorkflowId) -> Answer<Option<Flow>> {
    let head = connection
        .prepare_cached("select on_failure, state from windlass_workflows where id = ?1")?
        .query_row([id.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((on_failure, state)) = head else { return Ok(None) };
    let broken = || Fault::corrupt(format!("workflow {id} has an unknown state or policy"));
    let mut flow = Flow {
        on_failure: OnFailure::from_code(on_failure).ok_or_else(broken)?,
        state: WorkflowState::from_code(state).ok_or_else(broken)?,
        members: Vec::new(),
        places: Vec::new(),
    };
    let mut statement = connection.prepare_cached(
        "select state, parents, goes_on, undo is not null, undoes, job_id, name, run_at, delay_us
         from windlass_workflow_jobs where workflow = ?1 order by no",
    )?;
    let mut rows = statement.query([id.0])?;
    while let Some(row) = rows.next()? {
        flow.members.push(member(row)?);
        flow.places.push(Place {
            job: JobId(row.get(5)?),
            name: row.get(6)?,
            run_at: row.get(7)?,
            delay_us: row.get(8)?,
        });
    }
    Ok(Some(flow))
}

/// Reads the first five columns of [`load`].
fn member(row: &Row<'_>) -> Answer<Member> {
    let (state, parents): (i16, String) = (row.get(0)?, row.get(1)?);
    let broken = |what: String| Fault::corrupt(format!("a job of a workflow: {what}"));
    Ok(Member {
        status: MemberStatus::from_code(state).ok_or_else(|| broken(format!("state {state}")))?,
        parents: places(&parents)?,
        goes_on: row.get(2)?,
        has_undo: row.get(3)?,
        undoes: row.get::<_, Option<u32>>(4)?.map(|no| no as usize),
    })
}

fn places(json: &str) -> Answer<Vec<usize>> {
    serde_json::from_str(json).map_err(|error| Fault::corrupt(format!("a job of a workflow: {error}")))
}

pub(super) fn set_standing(
    scope: &Scope<'_>,
    workflow: WorkflowId,
    no: usize,
    status: MemberStatus,
) -> Answer<()> {
    scope
        .connection
        .prepare_cached("update windlass_workflow_jobs set state = ?3 where workflow = ?1 and no = ?2")?
        .execute((workflow.0, no as i64, status.code()))?;
    Ok(())
}

fn release(scope: &mut Scope<'_>, workflow: WorkflowId, no: usize, place: &Place) -> Answer<()> {
    let Waiting { queue, lane, .. } = waiting_columns(scope.connection, place.job)?;
    let starts = place.starts(scope.now);
    // A job with a lane is blocked at first, like any new job.
    let row = (place.job.0, starts, stored_queue(queue, lane.is_some()), lane.map(|lane| lane.id.0));
    scope
        .connection
        .prepare_cached(
            "update windlass_ready set run_at = ?2, queue = ?3, lane = ?4 where id = ?1 and queue = 0",
        )?
        .execute(row)?;
    if let Some(lane) = lane {
        check(scope, lane, Time(starts))?;
    }
    scope.wake(Wake::Queue(QueueId(queue)));
    set_standing(scope, workflow, no, MemberStatus::Live)
}

fn cancel(scope: &mut Scope<'_>, workflow: WorkflowId, no: usize, place: &Place) -> Answer<()> {
    let waited: Option<u16> = scope
        .connection
        .prepare_cached("delete from windlass_ready where id = ?1 and queue = 0 returning attempt")?
        .query_row([place.job.0], |row| row.get(0))
        .optional()?;
    if let Some(attempt) = waited {
        let end = End { in_workflow: false, ..End::waiting(place.job, JobState::Cancelled, attempt) };
        finish(scope, &end)?;
    }
    set_standing(scope, workflow, no, MemberStatus::Ended(JobState::Cancelled))
}

fn undo(scope: &mut Scope<'_>, workflow: WorkflowId, flow: &Flow, no: usize) -> Answer<()> {
    let (kept, payload): (String, Vec<u8>) = scope
        .connection
        .prepare_cached(
            "select undo, undo_payload from windlass_workflow_jobs where workflow = ?1 and no = ?2",
        )?
        .query_row((workflow.0, no as i64), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let job = Undo::from_kept(&kept, payload)?.into_job();
    let name = undo_name(&flow.places[no].name);
    let member = NewMember { name, job, parents: Vec::new(), goes_on: false, undo: None };
    insert(scope, workflow, flow.members.len(), &member, &[], Some(no))?;
    Ok(())
}

fn set_state(scope: &Scope<'_>, id: WorkflowId, state: WorkflowState) -> Answer<()> {
    scope
        .connection
        .prepare_cached("update windlass_workflows set state = ?2, ended_at = ?3 where id = ?1")?
        .execute((id.0, state.code(), state.is_ended().then_some(scope.now.0)))?;
    Ok(())
}
