//! Operator actions: cancel, retry, delete, change.
//!
//! Owns bulk actions, one transaction each. The jobs are selected first and each action checks them again under lock,
//! so a job that changed meanwhile counts as skipped. Entities and workflows of the jobs are locked before the jobs,
//! and updated. Never waits for a handler.

use serde_json::{Map, Value};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::audit::{Actor, NewAudit, filter_words, job_figures, named_jobs, on_job, on_jobs};
use windlass_core::end::Ended;
use windlass_core::store::{Action, Bulk, Change, JobFilter};
use windlass_core::{JobId, JobState, QueueId, StoreError};

use crate::PostgresStore;
use crate::end::EndLocks;
use crate::error::failed;
use crate::hint::BOTTOM;
use crate::query::{bind_filter, picked};
use crate::row::{PgTime, count, get};
use crate::workflow::Woken;

const CANCEL_WAITING: &str = "
    with d as (delete from windlass.ready where id = any ($2) returning id, attempt, kind, lane, slot),
         k as (delete from windlass.cancels where job_id in (select id from d)),
         f as (insert into windlass.finished (id, state, attempt, finished_at)
               select id, {cancelled}, attempt, statement_timestamp() + $1::bigint * interval '1 microsecond' from d)
    select id, lane, kind, slot from d";

/// The share lock waits for a running settlement, after which the job is no longer among the ids.
const CANCEL_RUNNING: &str = "
    with c as materialized (
        select c.ids from windlass.claims c where c.ids && $2::bigint[] order by c.token for share),
    l as materialized (select i.id from c cross join unnest(c.ids) i (id) where i.id = any ($2)),
    k as (insert into windlass.cancels (job_id, requested_at)
          select id, statement_timestamp() + $1::bigint * interval '1 microsecond' from l
          on conflict do nothing)
    select id from l";

const RUN_NOW: &str = "
    with r as (
        update windlass.ready set run_at = n.now
        from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
        where id = any ($2) and run_at > n.now and queue <> 0
        returning id, run_at, kind, lane),
    o as (
        insert into windlass.lane_checks (kind, at, lane, freed)
        select distinct kind, run_at, lane, false from r where lane is not null)
    select id from r";

/// Moves the last attempt from the finished row to `attempts`. A job whose unique key is held by a waiting job ends as
/// superseded and keeps its record of the last run.
const REPLAY: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    f as materialized (
        select * from windlass.finished where id = any ($2) and state in ({failed}, {dead_letter}, {cancelled}) order by id for update),
    u as (
        insert into windlass.unique_keys (key, job_id)
        select j.unique_key, j.id from f join windlass.jobs j on j.id = f.id
        where j.unique_until = 'finished' order by j.unique_key
        on conflict (key) do nothing
        returning job_id),
    r as (
        insert into windlass.ready (queue, priority, run_at, id, kind, unique_key, lane)
        select case when j.lane is null then j.queue else -j.queue end, j.priority, n.now, j.id, j.kind,
               j.unique_key, j.lane
        from n, f join windlass.jobs j on j.id = f.id
        where j.unique_until is distinct from 'finished' or j.id in (select job_id from u)
        order by j.unique_key, j.id
        on conflict (unique_key) where unique_key is not null do nothing
        returning id, run_at, kind, lane),
    o as (
        insert into windlass.lane_checks (kind, at, lane, freed)
        select distinct kind, run_at, lane, false from r where lane is not null),
    a as (
        insert into windlass.attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
        select f.id, f.token, f.attempt, f.worker, coalesce(f.started_at, f.finished_at), f.finished_at,
               case f.state when {failed} then 'failed' when {dead_letter} then 'dead_letter' else 'cancelled' end, f.error
        from f where f.token is not null),
    d as (delete from windlass.finished where id in (select id from r)),
    s as (
        update windlass.finished set state = {superseded}, finished_at = n.now, token = null, worker = null from n
        where id in (select id from f) and id not in (select id from r)),
    k as (delete from windlass.cancels where job_id in (select id from f)),
    p as (delete from windlass.progress where job_id in (select id from r))
    select (select array_agg(id) from f where id not in (select id from r)) as superseded,
           (select array_agg(id) from r) as replayed";

/// Deletes everything that belongs to the job, its idempotency key included: the same request then creates a new job.
const DELETE: &str = "
    with d as (delete from windlass.finished where id = any ($1) returning id),
    j as (delete from windlass.jobs where id in (select id from d)),
    a as (delete from windlass.attempts where id in (select id from d)),
    l as (delete from windlass.logs where job_id in (select id from d)),
    p as (delete from windlass.progress where job_id in (select id from d)),
    k as (delete from windlass.cancels where job_id in (select id from d)),
    i as (delete from windlass.idempotency where job_id in (select id from d)),
    w as (delete from windlass.unique_windows where job_id in (select id from d))
    select count(*) from d";

/// A job of a lane that is moved into the future gives up its slot and is blocked.
const CHANGE: &str = "
    with w as materialized (
        select id, slot from windlass.ready where id = $2 and (queue <> 0 or $4::timestamptz is null) for update)
    update windlass.ready r
    set priority = coalesce($3, priority),
        run_at = case when $4::timestamptz is null then run_at else greatest($4, n.now) end,
        queue = case when lane is not null and $4 > n.now then -abs(queue) else queue end,
        slot = case when $4 > n.now then null else r.slot end
    from w, (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
    where r.id = w.id
    returning r.id, abs(queue) as queue, run_at, kind, lane, queue < 0 as blocked, w.slot";

const CHECK: &str = "insert into windlass.lane_checks (kind, at, lane, freed) values ($1, $2, $3, false)";

/// A retry then returns with the priority that the operator set.
const KEEP_PRIORITY: &str = "update windlass.jobs set priority = $2 where id = $1 and priority <> $2";

const LOCK_WAITING: &str = "select from windlass.ready where id = any ($1) order by id for update";
const LOCK_FINISHED: &str = "select from windlass.finished where id = any ($1) order by id for update";

const NAMES: &str = "
    select (select name from windlass.queues where id = $1) as queue,
           (select name from windlass.kinds where id = $2) as kind";

const OP: &str = "change jobs";

impl PostgresStore {
    pub(crate) async fn do_act(
        &self,
        filter: &JobFilter,
        action: Action,
        limit: u32,
        actor: Option<&Actor>,
    ) -> Result<Bulk, StoreError> {
        let asked = |s: &JobState| filter.states.is_empty() || filter.states.contains(s);
        let (fit, unfit): (Vec<JobState>, Vec<JobState>) =
            JobState::ALL.into_iter().filter(asked).partition(|s| action.fits(*s));
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let mut ids = self.pick(&mut tx, filter, fit, limit).await?;
        let mut skipped = self.pick(&mut tx, filter, unfit, limit).await?.len() as u64;
        let mut before = Vec::new();
        if actor.is_some() && !named_jobs(filter).is_empty() {
            before = self.lock_jobs(&mut tx, &ids).await?;
            before.retain(|(_, state, _)| action.fits(*state));
            // The other jobs changed state since they were selected.
            let there: Vec<i64> = before.iter().map(|(id, ..)| id.0).collect();
            skipped += (ids.len() - there.len()) as u64;
            ids = there;
        }
        let mut released = Woken::default();
        let mut bulk = match action {
            Action::Cancel => {
                let (bulk, woken) = self.cancel(&mut tx, &ids).await?;
                released = woken;
                bulk
            }
            Action::Retry => self.retry(&mut tx, &ids).await?,
            Action::Delete => {
                let row = sqlx::query(self.sql(DELETE)).bind(&ids).fetch_one(&mut *tx).await;
                Bulk { done: count(&row.map_err(failed(OP))?, "count")?, ..Bulk::default() }
            }
        };
        bulk.skipped =
            skipped + (ids.len() as u64).saturating_sub(bulk.done + bulk.requested + bulk.superseded);
        if actor.is_some() && named_jobs(filter).is_empty() {
            let words = self.filter_words(&mut tx, filter, &ids).await?;
            self.note(&mut tx, actor, on_jobs(filter, words, action, &bulk).as_ref()).await?;
        }
        for (id, _, before) in before {
            let note = on_job(filter, action, id, &before, &self.snapshot(&mut tx, id).await?);
            self.note(&mut tx, actor, note.as_ref()).await?;
        }
        tx.commit().await.map_err(failed(OP))?;
        self.waker.jobs(released.places());
        if bulk.requested > 0 {
            self.waker.cancel();
        }
        // A cancelled job may have held a slot of its lane.
        if bulk.done > 0 && action != Action::Delete {
            self.waker.any();
        }
        Ok(bulk)
    }

    /// Locks the rows of waiting and finished jobs, in the order of the actions, and returns the states of all. A
    /// running job may still end.
    async fn lock_jobs(
        &self,
        conn: &mut PgConnection,
        ids: &[i64],
    ) -> Result<Vec<(JobId, JobState, Map<String, Value>)>, StoreError> {
        self.lock_ends(conn, ids, ids).await?;
        for statement in [LOCK_WAITING, LOCK_FINISHED] {
            sqlx::query(self.sql(statement)).bind(ids).execute(&mut *conn).await.map_err(failed(OP))?;
        }
        let mut held = Vec::with_capacity(ids.len());
        for id in ids.iter().copied().map(JobId) {
            let found = self.job_on(conn, id).await?;
            held.extend(found.map(|(job, cancel)| (id, job.state, job_figures(&job, cancel))));
        }
        Ok(held)
    }

    /// Empty when there is no such job.
    async fn snapshot(&self, conn: &mut PgConnection, id: JobId) -> Result<Map<String, Value>, StoreError> {
        let found = self.job_on(conn, id).await?;
        Ok(found.map(|(job, cancel)| job_figures(&job, cancel)).unwrap_or_default())
    }

    async fn filter_words(
        &self,
        conn: &mut PgConnection,
        filter: &JobFilter,
        picked: &[i64],
    ) -> Result<Map<String, Value>, StoreError> {
        let row = sqlx::query(self.sql(NAMES))
            .bind(filter.queue.map(|queue| queue.0))
            .bind(filter.kind.map(|kind| kind.0))
            .fetch_one(conn)
            .await
            .map_err(failed(OP))?;
        let picked: Vec<JobId> = picked.iter().copied().map(JobId).collect();
        Ok(filter_words(filter, &picked, get(&row, "queue")?, get(&row, "kind")?))
    }

    /// Matching jobs in one of `states`, newest first; none when `states` is empty.
    async fn pick(
        &self,
        conn: &mut PgConnection,
        filter: &JobFilter,
        states: Vec<JobState>,
        limit: u32,
    ) -> Result<Vec<i64>, StoreError> {
        if states.is_empty() {
            return Ok(Vec::new());
        }
        let filter = JobFilter { states, ..filter.clone() };
        let sql = self.dynamic(&format!("{} select id from picked", picked(&filter, true)));
        let rows = bind_filter(sqlx::query(sql), self.offset(), &filter, None, i64::from(limit))
            .fetch_all(conn)
            .await
            .map_err(failed(OP))?;
        ids(&rows)
    }

    /// Waiting jobs first, then running ones: a job claimed in between is found running.
    pub(crate) async fn cancel(
        &self,
        conn: &mut PgConnection,
        wanted: &[i64],
    ) -> Result<(Bulk, Woken), StoreError> {
        let locks = self.lock_ends(conn, wanted, wanted).await?;
        let rows = self.on_rows(conn, CANCEL_WAITING, wanted).await?;
        self.release(conn, &rows).await?;
        let done = ids(&rows)?;
        let left: Vec<i64> = wanted.iter().copied().filter(|id| !done.contains(id)).collect();
        let requested = match left.is_empty() {
            true => Vec::new(),
            false => self.on_rows(conn, CANCEL_RUNNING, &left).await?,
        };
        let ended = done.iter().map(|id| Ended::new(JobId(*id), JobState::Cancelled, None));
        let woken = self.end_steps(conn, &locks, &ended.collect::<Vec<_>>()).await?;
        let bulk = Bulk { done: done.len() as u64, requested: requested.len() as u64, ..Bulk::default() };
        Ok((bulk, woken))
    }

    async fn retry(&self, conn: &mut PgConnection, wanted: &[i64]) -> Result<Bulk, StoreError> {
        let EndLocks { waiting, workflows } = self.lock_ends(conn, wanted, wanted).await?;
        let (revived, wanted) = self.retry_members(conn, workflows, wanted).await?;
        let moved = self.on_rows(conn, RUN_NOW, &wanted).await?.len() as u64;
        let row = sqlx::query(self.sql(REPLAY))
            .bind(self.offset())
            .bind(wanted)
            .fetch_one(&mut *conn)
            .await
            .map_err(failed(OP))?;
        let replayed = get::<Option<Vec<i64>>>(&row, "replayed")?.unwrap_or_default();
        self.wait_again(conn, &waiting, &replayed).await?;
        let superseded = get::<Option<Vec<i64>>>(&row, "superseded")?.unwrap_or_default();
        let bulk = Bulk {
            done: revived + moved + replayed.len() as u64,
            superseded: superseded.len() as u64,
            ..Bulk::default()
        };
        self.free_keys(conn, superseded).await?;
        Ok(bulk)
    }

    async fn on_rows(
        &self,
        conn: &mut PgConnection,
        statement: &'static str,
        wanted: &[i64],
    ) -> Result<Vec<PgRow>, StoreError> {
        let query = sqlx::query(self.sql(statement)).bind(self.offset()).bind(wanted);
        query.fetch_all(conn).await.map_err(failed(OP))
    }

    pub(crate) async fn do_change(
        &self,
        id: JobId,
        change: &Change,
        actor: Option<&Actor>,
    ) -> Result<bool, StoreError> {
        let op = "change a job";
        let mut tx = self.pool.begin().await.map_err(failed(op))?;
        let mut before = None;
        if actor.is_some() {
            let hold = sqlx::query(self.sql(LOCK_WAITING)).bind(vec![id.0]);
            hold.execute(&mut *tx).await.map_err(failed(op))?;
            before = Some(self.snapshot(&mut tx, id).await?);
        }
        let row = sqlx::query(self.sql(CHANGE))
            .bind(self.offset())
            .bind(id.0)
            .bind(change.priority.map(i16::from))
            .bind(change.run_at.map(PgTime))
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed(op))?;
        let Some(row) = row else { return Ok(false) };
        if get(&row, "blocked")? {
            self.release(&mut tx, std::slice::from_ref(&row)).await?;
            let (kind, lane) = (get::<i32>(&row, "kind")?, get::<i64>(&row, "lane")?);
            let at = get::<PgTime>(&row, "run_at")?;
            let check = sqlx::query(self.sql(CHECK)).bind(kind).bind(at).bind(lane);
            check.execute(&mut *tx).await.map_err(failed(op))?;
        }
        if let Some(priority) = change.priority {
            sqlx::query(self.sql(KEEP_PRIORITY))
                .bind(id.0)
                .bind(i16::from(priority))
                .execute(&mut *tx)
                .await
                .map_err(failed(op))?;
        }
        if let Some(before) = before {
            let note = NewAudit::job_changed(id, &before, &self.snapshot(&mut tx, id).await?);
            self.note(&mut tx, actor, note.as_ref()).await?;
        }
        tx.commit().await.map_err(failed(op))?;
        // The job keeps its time when only its priority changed, so it may be below the hint of its new priority.
        self.waker.jobs([(QueueId(get(&row, "queue")?), BOTTOM)]);
        Ok(true)
    }
}

fn ids(rows: &[PgRow]) -> Result<Vec<i64>, StoreError> {
    rows.iter().map(|row| get(row, "id")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Core decides which states a retry fits. The statement has to name the same ones.
    #[test]
    fn replay_takes_the_states_that_a_retry_fits() {
        let fit = JobState::ALL.into_iter().filter(|state| state.is_finished() && Action::Retry.fits(*state));
        let fit: Vec<String> = fit.map(|state| format!("{{{state}}}")).collect();
        assert!(REPLAY.contains(&format!("state in ({})", fit.join(", "))), "{fit:?}");
    }
}
