//! Operator actions on workflows, and on jobs that belong to one.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::store::Bulk;
use windlass_core::workflow::{MemberStatus, WorkflowState, again};
use windlass_core::{StoreError, WorkflowId};

use super::TRIES;
use super::fate::Flow;
use crate::PostgresStore;
use crate::error::{failed, is_conflict};
use crate::row::get;

/// Moves ended jobs back to waiting. Deleted jobs have no end to return from.
const REVIVE: &str = "
    with f as materialized (
        select * from windlass.finished where id = any ($1) and state in ({failed}, {dead_letter}, {cancelled}) order by id for update),
    r as (
        insert into windlass.ready (queue, priority, run_at, id, kind)
        select 0, j.priority, 'infinity', j.id, j.kind from f join windlass.jobs j on j.id = f.id),
    a as (
        insert into windlass.attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
        select f.id, f.token, f.attempt, f.worker, coalesce(f.started_at, f.finished_at), f.finished_at,
               case f.state when {failed} then 'failed' when {dead_letter} then 'dead_letter' else 'cancelled' end, f.error
        from f where f.token is not null),
    d as (delete from windlass.finished where id in (select id from f)),
    k as (delete from windlass.cancels where job_id in (select id from f)),
    p as (delete from windlass.progress where job_id in (select id from f)),
    m as (
        update windlass.workflow_jobs set state = 0, run_at = null, delay_us = null
        where job_id in (select id from f))
    select id from f";

const OP: &str = "change a workflow";

impl PostgresStore {
    pub(super) async fn write_cancel(
        &self,
        id: WorkflowId,
        actor: Option<&Actor>,
    ) -> Result<Option<Bulk>, StoreError> {
        let mut tries = 0;
        loop {
            match self.try_stop(id, actor).await {
                Err(error) if is_conflict(&error) && tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    async fn try_stop(&self, id: WorkflowId, actor: Option<&Actor>) -> Result<Option<Bulk>, StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        self.lock_workflows(&mut tx, &[id.0]).await?;
        let Some(flow) = self.load_workflows(&mut tx, &[id.0]).await?.pop() else { return Ok(None) };
        let open: Vec<i64> = open(&flow);
        let (mut bulk, woken) = self.cancel(&mut tx, &open).await?;
        bulk.skipped = flow.jobs.len() as u64 - bulk.done - bulk.requested;
        let states = [flow.state, self.state_now(&mut tx, &flow).await?];
        self.note(&mut tx, actor, NewAudit::workflow_cancelled(id, states, &bulk).as_ref()).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.waker.jobs(woken.places());
        if bulk.requested > 0 {
            self.waker.cancel();
        }
        Ok(Some(bulk))
    }

    pub(super) async fn write_retry(
        &self,
        id: WorkflowId,
        actor: Option<&Actor>,
    ) -> Result<Option<Bulk>, StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        self.lock_workflows(&mut tx, &[id.0]).await?;
        let Some(flow) = self.load_workflows(&mut tx, &[id.0]).await?.pop() else { return Ok(None) };
        let all: Vec<usize> = (0..flow.members.len()).collect();
        let revived =
            self.revive(&mut tx, &again(&flow.members, flow.on_failure, &all).revive, &flow).await?;
        let woken = self.follow(&mut tx, vec![id.0]).await?;
        let done = revived.len() as u64;
        let bulk = Bulk { done, skipped: flow.jobs.len() as u64 - done, ..Bulk::default() };
        let states = [flow.state, self.state_now(&mut tx, &flow).await?];
        self.note(&mut tx, actor, NewAudit::workflow_retried(id, states, &bulk).as_ref()).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.waker.jobs(woken.places());
        Ok(Some(bulk))
    }

    async fn state_now(&self, conn: &mut PgConnection, flow: &Flow) -> Result<WorkflowState, StoreError> {
        let now = self.load_workflows(conn, &[flow.id.0]).await?.pop();
        Ok(now.map_or(flow.state, |now| now.state))
    }

    /// Retries those of `wanted` that belong to the locked `workflows`. Returns how many were retried, and the others.
    /// A job that was revived because of another is counted only if it is one of `wanted`.
    pub(crate) async fn retry_members(
        &self,
        conn: &mut PgConnection,
        workflows: Vec<i64>,
        wanted: &[i64],
    ) -> Result<(u64, Vec<i64>), StoreError> {
        let mut plain: BTreeSet<i64> = wanted.iter().copied().collect();
        let mut done = 0;
        for flow in self.load_workflows(conn, &workflows).await? {
            let asked: Vec<usize> =
                (0..flow.jobs.len()).filter(|no| plain.contains(&flow.jobs[*no])).collect();
            // A job that is already in its queue, due later, is hurried like any other job.
            for no in asked.iter().filter(|no| flow.members[**no].status != MemberStatus::Live) {
                plain.remove(&flow.jobs[*no]);
            }
            let revive = again(&flow.members, flow.on_failure, &asked).revive;
            let revived = self.revive(conn, &revive, &flow).await?;
            done += asked.iter().filter(|no| revived.contains(&flow.jobs[**no])).count() as u64;
        }
        self.follow(conn, workflows).await?;
        Ok((done, plain.into_iter().collect()))
    }

    async fn revive(
        &self,
        conn: &mut PgConnection,
        places: &[usize],
        flow: &Flow,
    ) -> Result<Vec<i64>, StoreError> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let jobs: Vec<i64> = places.iter().map(|no| flow.jobs[*no]).collect();
        let rows = sqlx::query(self.sql(REVIVE)).bind(jobs).fetch_all(conn).await.map_err(failed(OP))?;
        rows.iter().map(|row| get(row, "id")).collect()
    }
}

fn open(flow: &Flow) -> Vec<i64> {
    let jobs = flow.members.iter().zip(&flow.jobs);
    jobs.filter(|(member, _)| !member.status.is_ended()).map(|(_, job)| *job).collect()
}
