//! Showing workflows, and the results of a job's parents.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use windlass_core::store::{Counts, MemberRecord, Parent, WorkflowDetail, WorkflowFilter, WorkflowRecord};
use windlass_core::workflow::{MemberStatus, OnFailure, WorkflowState};
use windlass_core::{JobId, JobState, StoreError, WorkflowId};

use super::fate::places;
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, get, time, time_or_none};

const LIST: &str = "
    select id, name, on_failure, state, created_at, ended_at from windlass.workflows
    where ($1::bigint is null or id < $1) and ($2::smallint is null or state = $2)
    order by id desc limit $3";

const ONE: &str =
    "select id, name, on_failure, state, created_at, ended_at from windlass.workflows where id = $1";

const COUNTS: &str = "
    select workflow, state, count(*) as jobs from windlass.workflow_jobs where workflow = any ($1)
    group by workflow, state";

const MEMBERS: &str = "
    select m.name, m.job_id, m.state, m.parents, m.undoes, m.goes_on, coalesce(k.name, '') as kind, r.id is not null as ready,
           coalesce(r.run_at > statement_timestamp() + $2::bigint * interval '1 microsecond', false) as ahead
    from windlass.workflow_jobs m
    left join lateral (select kind from windlass.jobs where id = m.job_id limit 1) j on true
    left join windlass.kinds k on k.id = j.kind
    left join windlass.ready r on r.id = m.job_id
    where m.workflow = $1 order by m.no";

const PARENTS: &str = "
    select p.name, p.job_id, p.state, f.result
    from windlass.workflow_jobs m
    join windlass.workflow_jobs p
      on p.workflow = m.workflow and p.no = any (case when m.undoes is null then m.parents else array[m.undoes] end)
    left join lateral (select result from windlass.finished where id = p.job_id limit 1) f on true
    where m.job_id = $1 order by p.no";

const OP: &str = "read workflows";

impl PostgresStore {
    pub(super) async fn list_workflows(
        &self,
        filter: &WorkflowFilter,
    ) -> Result<Vec<WorkflowRecord>, StoreError> {
        let query = sqlx::query(self.sql(LIST))
            .bind(filter.before.map(|id| id.0))
            .bind(filter.state.map(WorkflowState::code))
            .bind(i64::from(filter.limit));
        let rows = query.fetch_all(&self.pool).await.map_err(failed(OP))?;
        let mut found = rows.iter().map(record).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<i64> = found.iter().map(|record| record.id.0).collect();
        let rows = sqlx::query(self.sql(COUNTS)).bind(ids).fetch_all(&self.pool).await.map_err(failed(OP))?;
        let mut counts: HashMap<i64, Counts> = HashMap::new();
        for row in &rows {
            let of = counts.entry(get(row, "workflow")?).or_default();
            of.add(status(get(row, "state")?)?, count(row, "jobs")?);
        }
        for record in &mut found {
            record.counts = counts.remove(&record.id.0).unwrap_or_default();
        }
        Ok(found)
    }

    /// Two statements on one snapshot, so that the parts are consistent.
    pub(super) async fn show_workflow(&self, id: WorkflowId) -> Result<Option<WorkflowDetail>, StoreError> {
        let mut tx = self
            .pool
            .begin_with("begin isolation level repeatable read read only")
            .await
            .map_err(failed(OP))?;
        let row = sqlx::query(self.sql(ONE)).bind(id.0).fetch_optional(&mut *tx).await.map_err(failed(OP))?;
        let Some(row) = row else { return Ok(None) };
        let mut workflow = record(&row)?;
        let rows = sqlx::query(self.sql(MEMBERS))
            .bind(id.0)
            .bind(self.offset())
            .fetch_all(&mut *tx)
            .await
            .map_err(failed(OP))?;
        tx.commit().await.map_err(failed(OP))?;
        for row in &rows {
            workflow.counts.add(status(get(row, "state")?)?, 1);
        }
        let members = rows.iter().map(member).collect::<Result<_, _>>()?;
        Ok(Some(WorkflowDetail { workflow, members }))
    }

    pub(super) async fn parents_of(&self, job: JobId) -> Result<Vec<Parent>, StoreError> {
        let rows =
            sqlx::query(self.sql(PARENTS)).bind(job.0).fetch_all(&self.pool).await.map_err(failed(OP))?;
        let parent = |row: &PgRow| {
            let state = match status(get(row, "state")?)? {
                MemberStatus::Ended(state) => state,
                MemberStatus::Live => JobState::Running,
                MemberStatus::Waits => JobState::Scheduled,
            };
            let (name, job) = (get(row, "name")?, JobId(get(row, "job_id")?));
            Ok(Parent { name, job, state, result: get(row, "result")? })
        };
        rows.iter().map(parent).collect()
    }
}

fn record(row: &PgRow) -> Result<WorkflowRecord, StoreError> {
    let id = WorkflowId(get(row, "id")?);
    let broken = || StoreError::Corrupt { what: format!("workflow {id} has an unknown state or policy") };
    Ok(WorkflowRecord {
        id,
        name: get(row, "name")?,
        on_failure: OnFailure::from_code(get(row, "on_failure")?).ok_or_else(broken)?,
        state: WorkflowState::from_code(get(row, "state")?).ok_or_else(broken)?,
        created_at: time(row, "created_at")?,
        ended_at: time_or_none(row, "ended_at")?,
        counts: Counts::default(),
    })
}

fn member(row: &PgRow) -> Result<MemberRecord, StoreError> {
    let status = status(get(row, "state")?)?;
    let state = match (status, get::<bool>(row, "ready")?, get::<bool>(row, "ahead")?) {
        (MemberStatus::Ended(state), ..) => state,
        (MemberStatus::Waits, ..) | (MemberStatus::Live, true, true) => JobState::Scheduled,
        (MemberStatus::Live, true, false) => JobState::Pending,
        (MemberStatus::Live, false, _) => JobState::Running,
    };
    Ok(MemberRecord {
        name: get(row, "name")?,
        job: JobId(get(row, "job_id")?),
        kind: get(row, "kind")?,
        state,
        waits: status == MemberStatus::Waits,
        parents: places(row, "parents")?,
        undoes: get::<Option<i32>>(row, "undoes")?.map(|no| usize::try_from(no).unwrap_or(0)),
        goes_on: get(row, "goes_on")?,
    })
}

fn status(code: i16) -> Result<MemberStatus, StoreError> {
    let broken = || StoreError::Corrupt { what: format!("a workflow's job has state {code}") };
    MemberStatus::from_code(code).ok_or_else(broken)
}
