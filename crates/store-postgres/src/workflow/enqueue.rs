//! Writing workflows: all of its jobs wait at first, then those that wait for nobody are let go.

use sqlx::PgConnection;
use windlass_core::store::Started;
use windlass_core::time::micros;
use windlass_core::workflow::{NewMember, NewWorkflow};
use windlass_core::{JobId, RunAt, StoreError, Time, TxRef, WorkflowId};

use super::TRIES;
use crate::PostgresStore;
use crate::error::{failed, is_conflict, is_id_taken};
use crate::row::{PgTime, delay_in, small_in, sparse, text_array, text_in};
use crate::tx;

const INSERT_WORKFLOW: &str = "
    insert into windlass.workflows (id, name, on_failure, created_at)
    values ($2, $3, $4, statement_timestamp() + $1::bigint * interval '1 microsecond')";

/// Jobs that wait, at places `no`.
const INSERT_MEMBERS: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    u as materialized (
        select * from unnest($3::bigint[], $4::int[], $5::int[], $6::smallint[], $7::smallint[], $8::bigint[], $9::bytea[],
                             $10::text[], $11::text[], $12::text[], $13::text[], $14::int[], $15::text[], $16::boolean[],
                             $17::text[], $18::int[], $19::timestamptz[], $20::bigint[], $21::text[], $22::bytea[],
                             $23::bigint[], $24::text[])
            u (id, kind, queue, priority, max_attempts, timeout_us, payload, concurrency_key, tags, entity_type, entity_id,
               no, name, goes_on, parents, undoes, run_at, delay_us, undo, undo_payload, lane, children)),
    j as (
        insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us, parent_id, payload,
                                   concurrency_key, tags, entity_type, entity_id, lane)
        select id, kind, queue, priority, max_attempts, now, timeout_us, $2, payload,
               concurrency_key, tags::text[], entity_type, entity_id, lane
        from u, n),
    r as (
        insert into windlass.ready (queue, priority, run_at, id, kind)
        select 0, priority, 'infinity', id, kind from u)
    insert into windlass.workflow_jobs (workflow, no, job_id, name, goes_on, parents, children, undoes, run_at, delay_us,
                                        undo, undo_payload)
    select $2, no, id, name, goes_on, parents::int[], children::int[], undoes, run_at, delay_us, undo, undo_payload
    from u";

const OP: &str = "enqueue a workflow";

/// A member with its place, those of its children, and that of the job it undoes.
pub(super) struct Placed<'m> {
    pub(super) no: usize,
    pub(super) member: &'m NewMember,
    pub(super) children: Vec<usize>,
    pub(super) undoes: Option<usize>,
}

impl PostgresStore {
    pub(super) async fn start_workflow(&self, workflow: &NewWorkflow) -> Result<Started, StoreError> {
        let mut tries = 0;
        loop {
            let mut tx = self.pool.begin().await.map_err(failed(OP))?;
            match self.write_workflow(&mut tx, workflow).await {
                Ok((started, woken)) => {
                    tx.commit().await.map_err(failed(OP))?;
                    self.waker.jobs(woken.places());
                    return Ok(started);
                }
                Err(error) if (is_conflict(&error) || is_id_taken(&error)) && tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn start_workflow_in(
        &self,
        tx: TxRef<'_>,
        workflow: &NewWorkflow,
    ) -> Result<Started, StoreError> {
        let conn = tx::connection(tx)?;
        tx::savepoint(conn).await?;
        match self.write_workflow(conn, workflow).await {
            Ok((started, woken)) => {
                self.notify_in(conn, &woken.queues, Time(i64::MAX)).await?;
                tx::release(conn).await?;
                Ok(started)
            }
            Err(error) => {
                tx::undo(conn).await?;
                Err(error)
            }
        }
    }

    async fn write_workflow(
        &self,
        conn: &mut PgConnection,
        workflow: &NewWorkflow,
    ) -> Result<(Started, super::Woken), StoreError> {
        let ids = self.draw_ids(conn, workflow.members.len() + 1).await?;
        let Some((first, ids)) = ids.split_first() else {
            return Err(StoreError::Corrupt { what: "no ids were drawn".to_owned() });
        };
        let id = WorkflowId(*first);
        sqlx::query(self.sql(INSERT_WORKFLOW))
            .bind(self.offset())
            .bind(id.0)
            .bind(workflow.name.as_deref().map(text_in))
            .bind(workflow.on_failure.code())
            .execute(&mut *conn)
            .await
            .map_err(failed(OP))?;
        let members = workflow.members.iter().zip(workflow.children()).enumerate();
        let placed: Vec<Placed<'_>> =
            members.map(|(no, (member, children))| Placed { no, member, children, undoes: None }).collect();
        self.insert_members(conn, id, &placed, ids).await?;
        let woken = self.follow(conn, vec![id.0]).await?;
        Ok((Started { id, jobs: ids.iter().map(|id| JobId(*id)).collect() }, woken))
    }

    pub(super) async fn insert_members(
        &self,
        conn: &mut PgConnection,
        workflow: WorkflowId,
        placed: &[Placed<'_>],
        ids: &[i64],
    ) -> Result<(), StoreError> {
        fn all<'m, T>(placed: &[Placed<'m>], f: impl Fn(&'m NewMember) -> T) -> Vec<T> {
            placed.iter().map(|placed| f(placed.member)).collect()
        }
        let places = |all: &[usize]| {
            let numbers: Vec<String> = all.iter().map(usize::to_string).collect();
            format!("{{{}}}", numbers.join(","))
        };
        let number = |no: usize| i32::try_from(no).unwrap_or(i32::MAX);
        sqlx::query(self.sql(INSERT_MEMBERS))
            .bind(self.offset())
            .bind(workflow.0)
            .bind(ids)
            .bind(all(placed, |m| m.job.kind.0))
            .bind(all(placed, |m| m.job.queue.0))
            .bind(all(placed, |m| i16::from(m.job.priority)))
            .bind(all(placed, |m| small_in(m.job.max_attempts)))
            .bind(sparse(all(placed, |m| m.job.timeout.map(micros))))
            .bind(all(placed, |m| m.job.payload.as_slice()))
            .bind(sparse(all(placed, |m| m.job.concurrency_key.as_deref())))
            .bind(sparse(all(placed, |m| {
                (!m.job.tags.is_empty()).then(|| text_array(m.job.tags.iter().map(String::as_str)))
            })))
            .bind(sparse(all(placed, |m| m.job.entity.as_ref().map(|e| e.entity_type.as_str()))))
            .bind(sparse(all(placed, |m| m.job.entity.as_ref().map(|e| e.entity_id.as_str()))))
            .bind(placed.iter().map(|placed| number(placed.no)).collect::<Vec<_>>())
            .bind(all(placed, |m| m.name.as_str()))
            .bind(all(placed, |m| m.goes_on))
            .bind(all(placed, |m| places(&m.parents)))
            .bind(sparse(placed.iter().map(|placed| placed.undoes.map(number)).collect()))
            .bind(sparse(all(placed, |m| match m.job.run_at {
                RunAt::At(at) => Some(PgTime(at)),
                _ => None,
            })))
            .bind(sparse(all(placed, |m| match m.job.run_at {
                RunAt::In(delay) => Some(delay_in(delay)),
                _ => None,
            })))
            .bind(sparse(all(placed, |m| m.undo.as_ref().map(|undo| undo.to_kept()))))
            .bind(sparse(all(placed, |m| m.undo.as_ref().map(|undo| undo.payload.as_slice()))))
            .bind(sparse(all(placed, |m| m.job.lane().map(|lane| lane.0))))
            .bind(placed.iter().map(|placed| places(&placed.children)).collect::<Vec<_>>())
            .execute(conn)
            .await
            .map_err(failed(OP))?;
        Ok(())
    }
}
