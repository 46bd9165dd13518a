//! Workflows that do not match the states of their jobs: a process of a version without workflows ended one of them.

use windlass_core::StoreError;

use crate::PostgresStore;
use crate::error::failed;

/// A job of theirs ended unnoticed, or waits although all its parents have ended. The limit forces an index lookup per
/// job, whatever the planner estimates for the whole table.
const INCONSISTENT: &str = "
    select m.workflow from windlass.workflow_jobs m
    cross join lateral (select from windlass.finished where id = m.job_id limit 1) f
    where m.state in (0, 1)
    union
    select m.workflow from windlass.workflow_jobs m
    where m.state in (0, 1) and m.state = 0 and not exists (
        select from windlass.workflow_jobs p
        where p.workflow = m.workflow and p.no = any (m.parents) and p.state in (0, 1))
    limit 200";

const NOTICE: &str = "
    with e as materialized (
        select m.job_id, f.state from windlass.workflow_jobs m
        cross join lateral (select state from windlass.finished where id = m.job_id limit 1) f
        where m.workflow = any ($1) and m.state in (0, 1))
    update windlass.workflow_jobs m set state = e.state from e where m.job_id = e.job_id";

const OP: &str = "mend workflows";

impl PostgresStore {
    pub(crate) async fn inconsistent_workflows(&self) -> Result<Vec<i64>, StoreError> {
        sqlx::query_scalar(self.sql(INCONSISTENT)).fetch_all(&self.pool).await.map_err(failed(OP))
    }

    pub(super) async fn mend_inconsistent(&self) -> Result<u64, StoreError> {
        let found = self.inconsistent_workflows().await?;
        if found.is_empty() {
            return Ok(0);
        }
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let found = self.lock_workflows(&mut tx, &found).await?;
        sqlx::query(self.sql(NOTICE)).bind(&found).execute(&mut *tx).await.map_err(failed(OP))?;
        let mended = found.len() as u64;
        let woken = self.follow(&mut tx, found).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.waker.jobs(woken.places());
        Ok(mended)
    }
}
