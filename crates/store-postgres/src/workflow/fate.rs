//! What the end of a job does to its workflow, written in the same transaction. Most ends can only release children of
//! the ended job (`core::workflow::only_releases`) and read nothing else. For the others `core::workflow::advance`
//! gets all jobs.
//!
//! Differs from SQLite, where there is one writer: a transaction that ends or retries jobs of workflows first locks
//! the workflows, by id, and then the jobs. So two parents that end concurrently do so one after the other, and the
//! second sees the first. Entities are locked before workflows, claims after them. Reads are separate statements after
//! the lock: the locking statement would show the state before its wait.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::workflow::{
    Member, MemberStatus, NewMember, OnFailure, Undo, WorkflowState, advance, only_releases, undo_name,
};
use windlass_core::{JobState, QueueId, StoreError, Time, WorkflowId};

use super::enqueue::Placed;
use crate::PostgresStore;
use crate::error::failed;
use crate::row::get;

const WORKFLOWS_OF: &str =
    "select distinct workflow from windlass.workflow_jobs where job_id = any ($1) order by workflow";

const LOCK: &str = "select id from windlass.workflows where id = any ($1) order by id for update";

const ENDED: &str = "
    update windlass.workflow_jobs m set state = u.state
    from unnest($1::bigint[], $2::smallint[]) u (id, state)
    where m.job_id = u.id
    returning m.workflow, m.state, m.goes_on, m.undoes is not null as undoes, m.children";

/// Jobs at places $1, $2 whose parents have all ended, and those of the workflows $3 that have no unfinished job.
/// Scalar subqueries with a limit: as joins they could read every unfinished job there is.
pub(crate) const RELEASABLE: &str = "
    select c.job_id, null::bigint as over
    from unnest($1::bigint[], $2::int[]) u (workflow, no)
    join windlass.workflow_jobs c on c.workflow = u.workflow and c.no = u.no
    where c.state = 0 and (
        select 1 from windlass.workflow_jobs p
        where p.workflow = c.workflow and p.no = any (c.parents) and p.state in (0, 1) limit 1) is null
    union all
    select null, w.id from unnest($3::bigint[]) w (id)
    where (select 1 from windlass.workflow_jobs where workflow = w.id and state in (0, 1) limit 1) is null";

const LOAD: &str = "
    select w.id, w.on_failure, w.state as whole, m.state, m.parents, m.goes_on, m.undo is not null as has_undo, m.undoes,
           m.job_id, m.name
    from windlass.workflows w join windlass.workflow_jobs m on m.workflow = w.id
    where w.id = any ($1) order by w.id, m.no";

/// A job with a lane is blocked at first, like any new job.
const RELEASE: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    r as (
        update windlass.ready r
        set queue = case when j.lane is null then 1 else -1 end * j.queue, lane = j.lane,
            run_at = greatest(n.now + coalesce(m.delay_us, 0) * interval '1 microsecond', coalesce(m.run_at, n.now))
        from n, windlass.workflow_jobs m join windlass.jobs j on j.id = m.job_id
        where m.job_id = any ($2) and j.id = any ($2) and r.id = m.job_id and r.queue = 0
        returning abs(r.queue) as queue, r.run_at, r.kind, r.lane),
    o as (
        insert into windlass.lane_checks (kind, at, lane, freed)
        select distinct kind, run_at, lane, false from r where lane is not null),
    s as (update windlass.workflow_jobs set state = 1 where job_id = any ($2))
    select distinct queue from r";

const CANCEL: &str = "
    with d as (delete from windlass.ready where id = any ($2) and queue = 0 returning id, attempt),
    f as (insert into windlass.finished (id, state, attempt, finished_at)
          select id, {cancelled}, attempt, statement_timestamp() + $1::bigint * interval '1 microsecond' from d)
    update windlass.workflow_jobs set state = {cancelled} where job_id = any ($2)";

const SET_STATE: &str = "
    update windlass.workflows w
    set state = u.state, ended_at = case when u.state not in (0, 4)
                                         then statement_timestamp() + $1::bigint * interval '1 microsecond' end
    from unnest($2::bigint[], $3::smallint[]) u (id, state)
    where w.id = u.id";

const UNDO: &str = "select undo, undo_payload from windlass.workflow_jobs where workflow = $1 and no = $2";

const OP: &str = "advance workflows";

/// A workflow, as the rules of `core` see it.
pub(super) struct Flow {
    pub(super) id: WorkflowId,
    pub(super) on_failure: OnFailure,
    pub(super) state: WorkflowState,
    pub(super) members: Vec<Member>,
    pub(super) jobs: Vec<i64>,
    names: Vec<String>,
}

/// Queues that jobs were released into.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    pub(crate) queues: BTreeSet<QueueId>,
}

impl Woken {
    /// A released job is due at its release or later, so no hint has to be lowered.
    pub(crate) fn places(&self) -> Vec<(QueueId, Time)> {
        self.queues.iter().map(|queue| (*queue, Time(i64::MAX))).collect()
    }
}

impl PostgresStore {
    /// For any jobs; most belong to no workflow.
    pub(crate) async fn lock_workflows_of(
        &self,
        conn: &mut PgConnection,
        jobs: &[i64],
    ) -> Result<Vec<i64>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = sqlx::query_scalar(self.sql(WORKFLOWS_OF))
            .bind(jobs)
            .fetch_all(&mut *conn)
            .await
            .map_err(failed(OP))?;
        self.lock_workflows(conn, &ids).await
    }

    /// Returns the workflows that exist.
    pub(crate) async fn lock_workflows(
        &self,
        conn: &mut PgConnection,
        ids: &[i64],
    ) -> Result<Vec<i64>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        sqlx::query_scalar(self.sql(LOCK)).bind(ids).fetch_all(conn).await.map_err(failed(OP))
    }

    /// Jobs that ended, of any kind. Their workflows are locked.
    pub(crate) async fn jobs_ended(
        &self,
        conn: &mut PgConnection,
        ended: impl Iterator<Item = (i64, JobState)>,
    ) -> Result<Woken, StoreError> {
        let (jobs, states): (Vec<i64>, Vec<i16>) =
            ended.map(|(job, state)| (job, MemberStatus::Ended(state).code())).unzip();
        if jobs.is_empty() {
            return Ok(Woken::default());
        }
        let rows = sqlx::query(self.sql(ENDED))
            .bind(jobs)
            .bind(states)
            .fetch_all(&mut *conn)
            .await
            .map_err(failed(OP))?;
        let mut moved: BTreeMap<i64, Option<BTreeSet<i32>>> = BTreeMap::new();
        for row in &rows {
            let below = moved.entry(get(row, "workflow")?).or_insert_with(|| Some(BTreeSet::new()));
            match (below.as_mut(), children(row)?) {
                (Some(below), Some(children)) => below.extend(children),
                _ => *below = None,
            }
        }
        let (near, whole): (Vec<_>, Vec<_>) = moved.into_iter().partition(|(_, below)| below.is_some());
        let mut whole: Vec<i64> = whole.into_iter().map(|(workflow, _)| workflow).collect();
        let mut woken = Woken::default();
        if !near.is_empty() {
            let (release, over) = self.releasable(conn, &near).await?;
            let steps = Steps { release, ..Steps::default() };
            self.write_steps(conn, &steps, &mut woken).await?;
            whole.extend(over);
        }
        woken.queues.extend(self.follow(conn, whole).await?.queues);
        Ok(woken)
    }

    /// The children that may start, and the workflows without unfinished jobs.
    async fn releasable(
        &self,
        conn: &mut PgConnection,
        near: &[(i64, Option<BTreeSet<i32>>)],
    ) -> Result<(Vec<i64>, Vec<i64>), StoreError> {
        let below = near.iter().flat_map(|(id, below)| below.iter().flatten().map(|no| (*id, *no)));
        let (workflows, places): (Vec<i64>, Vec<i32>) = below.unzip();
        let all: Vec<i64> = near.iter().map(|(id, _)| *id).collect();
        let query = sqlx::query(self.sql(RELEASABLE)).bind(workflows).bind(places).bind(all);
        let rows = query.fetch_all(conn).await.map_err(failed(OP))?;
        let (mut releasable, mut over) = (Vec::new(), Vec::new());
        for row in &rows {
            releasable.extend(get::<Option<i64>>(row, "job_id")?);
            over.extend(get::<Option<i64>>(row, "over")?);
        }
        Ok((releasable, over))
    }

    /// Advances workflows of which a job changed. They are locked.
    pub(super) async fn follow(
        &self,
        conn: &mut PgConnection,
        mut moved: Vec<i64>,
    ) -> Result<Woken, StoreError> {
        let mut woken = Woken::default();
        while !moved.is_empty() {
            let mut steps = Steps::default();
            for flow in self.load_workflows(conn, &moved).await? {
                steps.add(&flow);
            }
            self.write_steps(conn, &steps, &mut woken).await?;
            for (workflow, member, undoes, place) in &steps.undo {
                self.insert_undo(conn, *workflow, member, *undoes, *place).await?;
            }
            moved = steps.undo.iter().map(|(workflow, ..)| workflow.0).collect();
        }
        Ok(woken)
    }

    pub(super) async fn load_workflows(
        &self,
        conn: &mut PgConnection,
        ids: &[i64],
    ) -> Result<Vec<Flow>, StoreError> {
        let rows = sqlx::query(self.sql(LOAD)).bind(ids).fetch_all(conn).await.map_err(failed(OP))?;
        let mut flows: Vec<Flow> = Vec::new();
        for row in &rows {
            let id = WorkflowId(get(row, "id")?);
            if flows.last().is_none_or(|flow| flow.id != id) {
                flows.push(read_workflow(id, row)?);
            }
            let Some(flow) = flows.last_mut() else { continue };
            flow.members.push(member(row)?);
            flow.jobs.push(get(row, "job_id")?);
            flow.names.push(get(row, "name")?);
        }
        Ok(flows)
    }

    async fn write_steps(
        &self,
        conn: &mut PgConnection,
        steps: &Steps,
        woken: &mut Woken,
    ) -> Result<(), StoreError> {
        let on = |sql, jobs: &[i64]| sqlx::query(self.sql(sql)).bind(self.offset()).bind(jobs.to_vec());
        if !steps.release.is_empty() {
            let rows = on(RELEASE, &steps.release).fetch_all(&mut *conn).await.map_err(failed(OP))?;
            for row in &rows {
                woken.queues.insert(QueueId(get(row, "queue")?));
            }
        }
        if !steps.cancel.is_empty() {
            on(CANCEL, &steps.cancel).execute(&mut *conn).await.map_err(failed(OP))?;
        }
        if !steps.states.is_empty() {
            let (ids, states): (Vec<i64>, Vec<i16>) = steps.states.iter().copied().unzip();
            on(SET_STATE, &ids).bind(states).execute(conn).await.map_err(failed(OP))?;
        }
        Ok(())
    }

    async fn insert_undo(
        &self,
        conn: &mut PgConnection,
        workflow: WorkflowId,
        name: &str,
        undoes: usize,
        place: usize,
    ) -> Result<(), StoreError> {
        let row = sqlx::query(self.sql(UNDO))
            .bind(workflow.0)
            .bind(i32::try_from(undoes).unwrap_or(i32::MAX))
            .fetch_one(&mut *conn)
            .await
            .map_err(failed(OP))?;
        let job = Undo::from_kept(&get::<String>(&row, "undo")?, get(&row, "undo_payload")?)?.into_job();
        let name = undo_name(name);
        let member = NewMember { name, job, parents: Vec::new(), goes_on: false, undo: None };
        let ids = self.draw_ids(conn, 1).await?;
        let placed = Placed { no: place, member: &member, children: Vec::new(), undoes: Some(undoes) };
        self.insert_members(conn, workflow, &[placed], &ids).await
    }
}

/// Changes to write to several workflows.
#[derive(Default)]
struct Steps {
    release: Vec<i64>,
    cancel: Vec<i64>,
    states: Vec<(i64, i16)>,
    /// The workflow, the name and number of the job to undo, and the number of the job that undoes it.
    undo: Vec<(WorkflowId, String, usize, usize)>,
}

impl Steps {
    fn add(&mut self, flow: &Flow) {
        let next = advance(&flow.members, flow.on_failure);
        self.release.extend(next.release.iter().map(|no| flow.jobs[*no]));
        self.cancel.extend(next.cancel.iter().map(|no| flow.jobs[*no]));
        if next.state != flow.state {
            self.states.push((flow.id.0, next.state.code()));
        }
        if let Some(no) = next.undo {
            self.undo.push((flow.id, flow.names[no].clone(), no, flow.members.len()));
        }
    }
}

/// The children that the end of the job in `row` may release, if it can do nothing else.
fn children(row: &PgRow) -> Result<Option<Vec<i32>>, StoreError> {
    let ended = JobState::from_code(get(row, "state")?);
    let goes_on = get(row, "goes_on")?;
    let near = ended.is_some_and(|state| only_releases(state, goes_on)) && !get::<bool>(row, "undoes")?;
    if near { get(row, "children") } else { Ok(None) }
}

fn read_workflow(id: WorkflowId, row: &PgRow) -> Result<Flow, StoreError> {
    let broken = || StoreError::Corrupt { what: format!("workflow {id} has an unknown state or policy") };
    Ok(Flow {
        id,
        on_failure: OnFailure::from_code(get(row, "on_failure")?).ok_or_else(broken)?,
        state: WorkflowState::from_code(get(row, "whole")?).ok_or_else(broken)?,
        members: Vec::new(),
        jobs: Vec::new(),
        names: Vec::new(),
    })
}

fn member(row: &PgRow) -> Result<Member, StoreError> {
    let state: i16 = get(row, "state")?;
    let broken = || StoreError::Corrupt { what: format!("a workflow's job has state {state}") };
    Ok(Member {
        status: MemberStatus::from_code(state).ok_or_else(broken)?,
        parents: places(row, "parents")?,
        goes_on: get(row, "goes_on")?,
        has_undo: get(row, "has_undo")?,
        undoes: get::<Option<i32>>(row, "undoes")?.map(|no| usize::try_from(no).unwrap_or(0)),
    })
}

pub(super) fn places(row: &PgRow, column: &str) -> Result<Vec<usize>, StoreError> {
    let numbers: Vec<i32> = get(row, column)?;
    Ok(numbers.into_iter().map(|no| usize::try_from(no).unwrap_or(0)).collect())
}
