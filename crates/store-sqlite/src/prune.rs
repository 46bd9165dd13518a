//! Removing what retention allows.
//!
//! Owns: deletion in short transactions, oldest first. A job's id contains its creation time, and no job ends
//! before it is created, so old finished jobs are a range of ids and need no index on their end. Never removes a
//! job that is not finished.

use rusqlite::Connection;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::store::{Prune, PruneWhat};
use windlass_core::{JobId, StoreError, Time};

use crate::error::Answer;
use crate::scope::Scope;
use crate::{SqliteStore, audit};

/// Rows per transaction.
const CHUNK: usize = 250;

/// Removes a finished job with everything that belongs to it. Idempotency keys and windows expire separately and
/// outlive a pruned job.
pub(crate) fn erase(scope: &Scope<'_>, id: JobId, keys: bool) -> Answer<()> {
    for sql in [
        "delete from windlass_finished where id = ?1",
        "delete from windlass_attempts where id = ?1",
        "delete from windlass_logs where job_id = ?1",
        "delete from windlass_progress where job_id = ?1",
        "delete from windlass_jobs where id = ?1",
        "update windlass_deleted set last_id = max(last_id, ?1)",
    ] {
        scope.connection.prepare_cached(sql)?.execute([id.0])?;
    }
    if keys {
        for sql in [
            "delete from windlass_idempotency where job_id = ?1",
            "delete from windlass_unique_windows where job_id = ?1",
        ] {
            scope.connection.prepare_cached(sql)?.execute([id.0])?;
        }
    }
    Ok(())
}

/// Jobs of a workflow stay until the workflow has ended.
macro_rules! old {
    ($states:literal) => {
        concat!(
            "from windlass_finished where id > ?1 and id < ?2 and finished_at < ?3 and state in ",
            $states,
            " and not exists (
                select 1 from windlass_workflow_jobs m join windlass_workflows w on w.id = m.workflow
                where m.job_id = windlass_finished.id and w.ended_at is null)"
        )
    };
}

const FINISHED: &str = old!("(3, 6, 7)");
const DEAD: &str = old!("(4, 5)");

impl SqliteStore {
    pub(crate) async fn prune(&self, prune: &Prune, actor: Option<&Actor>) -> Result<u64, StoreError> {
        let before = self.now_here().minus(prune.older_than);
        let run = Run { prune: *prune, actor: actor.cloned(), before };
        let jobs = match prune.what {
            PruneWhat::Finished => FINISHED,
            PruneWhat::DeadLetters => DEAD,
            PruneWhat::Idempotency => return self.prune_keys(run).await,
            PruneWhat::Windows => return self.prune_windows(run).await,
            PruneWhat::Rollups => return self.prune_rollups(run).await,
        };
        if prune.dry_run {
            return self.read("count what to prune", move |c| count_jobs(c, jobs, before)).await;
        }
        let (mut after, mut total) = (JobId(0), 0);
        loop {
            let ids = self.read("find what to prune", move |c| old_jobs(c, jobs, after, before)).await?;
            let Some(last) = ids.last().copied() else { break };
            total += self.write("prune", ids.len(), move |scope| remove(scope, jobs, &ids, before)).await?;
            after = last;
        }
        let states = if prune.what == PruneWhat::Finished { "(1, 3, 5)" } else { "(2)" };
        self.prune_workflows(states, run, total).await?;
        Ok(total)
    }

    /// Failed workflows are kept as long as dead letters. Not counted: they go with their jobs.
    async fn prune_workflows(&self, states: &'static str, run: Run, total: u64) -> Result<(), StoreError> {
        loop {
            let run = run.clone();
            let gone = move |scope: &mut Scope<'_>| {
                let sql = format!(
                    "delete from windlass_workflows where id in (
                         select id from windlass_workflows where ended_at < ?1 and state in {states} limit ?2)
                     returning id"
                );
                let mut statement = scope.connection.prepare_cached(&sql)?;
                let rows =
                    statement.query_map((run.before.0, CHUNK.cast_signed() as i64), |row| row.get(0))?;
                let ids = rows.collect::<Result<Vec<i64>, _>>()?;
                let mut members = scope
                    .connection
                    .prepare_cached("delete from windlass_workflow_jobs where workflow = ?1")?;
                for id in &ids {
                    members.execute([id])?;
                }
                run.note_last(scope, ids.len(), total)?;
                Ok(ids.len())
            };
            if self.write("prune workflows", CHUNK, gone).await? < CHUNK {
                return Ok(());
            }
        }
    }

    async fn prune_keys(&self, run: Run) -> Result<u64, StoreError> {
        const OLD: &str = "select count(*) from windlass_idempotency where created_at < ?1";
        const REMOVE: &str = "delete from windlass_idempotency where key in
             (select key from windlass_idempotency where created_at < ?1 limit ?2)";
        self.prune_rows(OLD, REMOVE, run).await
    }

    async fn prune_windows(&self, run: Run) -> Result<u64, StoreError> {
        const OLD: &str = "select count(*) from windlass_unique_windows where until <= ?1";
        const REMOVE: &str = "delete from windlass_unique_windows where key in
             (select key from windlass_unique_windows where until <= ?1 limit ?2)";
        self.prune_rows(OLD, REMOVE, run).await
    }

    async fn prune_rollups(&self, run: Run) -> Result<u64, StoreError> {
        const OLD: &str = "select count(*) from windlass_rollups where minute < ?1";
        const REMOVE: &str = "delete from windlass_rollups where seq in
             (select seq from windlass_rollups where minute < ?1 limit ?2)";
        self.prune_rows(OLD, REMOVE, run).await
    }

    async fn prune_rows(&self, old: &'static str, remove: &'static str, run: Run) -> Result<u64, StoreError> {
        let before = run.before;
        if run.prune.dry_run {
            let count = move |c: &Connection| Ok(c.query_row(old, [before.0], |row| row.get::<_, i64>(0))?);
            return Ok(self.read("count what to prune", count).await?.unsigned_abs());
        }
        let mut total = 0;
        loop {
            let run = run.clone();
            let gone = self
                .write("prune", CHUNK, move |scope| {
                    let mut statement = scope.connection.prepare_cached(remove)?;
                    let gone = statement.execute((before.0, CHUNK.cast_signed() as i64))?;
                    run.note_last(scope, gone, total + gone as u64)?;
                    Ok(gone)
                })
                .await?;
            total += gone as u64;
            if gone < CHUNK {
                return Ok(total);
            }
        }
    }
}

/// One run of a task.
#[derive(Clone)]
struct Run {
    prune: Prune,
    actor: Option<Actor>,
    before: Time,
}

impl Run {
    /// A chunk that is not full is the last of its run, and writes the audit record.
    fn note_last(&self, scope: &Scope<'_>, gone: usize, total: u64) -> Answer<()> {
        match gone < CHUNK {
            true => audit::note(scope, self.actor.as_ref(), NewAudit::cleanup(&self.prune, total).as_ref()),
            false => Ok(()),
        }
    }
}

fn count_jobs(connection: &Connection, jobs: &str, before: Time) -> Answer<u64> {
    let floor = JobId::floor(before).0.saturating_add(1 << windlass_core::id::JOB_ID_SEQUENCE_BITS);
    let count: i64 = connection
        .prepare_cached(&format!("select count(*) {jobs}"))?
        .query_row((0, floor, before.0), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn old_jobs(connection: &Connection, jobs: &str, after: JobId, before: Time) -> Answer<Vec<JobId>> {
    let floor = JobId::floor(before).0.saturating_add(1 << windlass_core::id::JOB_ID_SEQUENCE_BITS);
    let mut statement = connection.prepare_cached(&format!("select id {jobs} order by id limit {CHUNK}"))?;
    let rows = statement.query_map((after.0, floor, before.0), |row| row.get(0).map(JobId))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Checks each job again: it may have been retried since it was found.
fn remove(scope: &mut Scope<'_>, jobs: &str, ids: &[JobId], before: Time) -> Answer<u64> {
    let mut gone = 0;
    for id in ids {
        let still: bool = scope
            .connection
            .prepare_cached(&format!("select exists (select 1 {jobs})"))?
            .query_row((id.0 - 1, id.0 + 1, before.0), |row| row.get(0))?;
        if still {
            erase(scope, *id, false)?;
            gone += 1;
        }
    }
    Ok(gone)
}
