//! The steps of every end of a job, in the same transaction.
//!
//! Differs from SQLite, where there is one writer: entities, then workflows, are locked before the rows of the jobs,
//! so that two ends never deadlock.

use sqlx::PgConnection;
use windlass_core::StoreError;
use windlass_core::end::{EndStep, Ended};
use windlass_core::entity::why_failed;

use crate::PostgresStore;
use crate::entity::Waiting;
use crate::error::failed;
use crate::workflow::Woken;

const FREE_KEYS: &str = "delete from windlass.unique_keys where job_id = any ($1)";

/// The locked entities and workflows that the end of some jobs concerns.
#[derive(Default)]
pub(crate) struct EndLocks {
    pub(crate) waiting: Waiting,
    pub(crate) workflows: Vec<i64>,
}

impl PostgresStore {
    /// Called before the jobs are locked. `boxes` may be boxes of entities, `members` may belong to workflows.
    pub(crate) async fn lock_ends(
        &self,
        conn: &mut PgConnection,
        boxes: &[i64],
        members: &[i64],
    ) -> Result<EndLocks, StoreError> {
        let waiting = self.lock_waiting(conn, boxes).await?;
        let workflows = self.lock_workflows_of(conn, members).await?;
        Ok(EndLocks { waiting, workflows })
    }

    /// Takes every step for jobs that ended. Returns the queues into which that released others.
    pub(crate) async fn end_steps(
        &self,
        conn: &mut PgConnection,
        locks: &EndLocks,
        ended: &[Ended],
    ) -> Result<Woken, StoreError> {
        let mut woken = Woken::default();
        for step in EndStep::ALL {
            match step {
                EndStep::Entities => {
                    let why = |end: &Ended| Some((end.id.0, why_failed(end.state, end.error.as_deref())?));
                    self.fail_waiting(conn, &locks.waiting, ended.iter().filter_map(why)).await?;
                }
                EndStep::Workflows => {
                    let members = ended.iter().filter(|end| end.in_workflow);
                    woken = self.jobs_ended(conn, members.map(|end| (end.id.0, end.state))).await?;
                }
                EndStep::UniqueKeys => {
                    let holders = ended.iter().filter(|end| end.holds_key).map(|end| end.id.0);
                    self.free_keys(conn, holders.collect()).await?;
                }
            }
        }
        Ok(woken)
    }

    pub(crate) async fn free_keys(
        &self,
        conn: &mut PgConnection,
        holders: Vec<i64>,
    ) -> Result<(), StoreError> {
        if !holders.is_empty() {
            let query = sqlx::query(self.sql(FREE_KEYS)).bind(holders);
            query.execute(conn).await.map_err(failed("free unique keys"))?;
        }
        Ok(())
    }
}
