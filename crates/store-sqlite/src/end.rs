//! The end of a job: its row in `finished`, and the steps of every end, in the same transaction.

use rusqlite::CachedStatement;
use windlass_core::end::EndStep;
use windlass_core::{JobId, JobState, Time, Token, WorkerId};

use crate::entity::box_ended;
use crate::error::Answer;
use crate::scope::Scope;
use crate::workflow;

/// A row of `finished`, and what is known about the job.
pub(crate) struct End<'a> {
    pub(crate) id: JobId,
    pub(crate) state: JobState,
    pub(crate) attempt: u16,
    /// Token, worker and start of the run that ended the job. `None` for a job that ended while it waited.
    pub(crate) run: Option<Run>,
    pub(crate) result: Option<&'a [u8]>,
    pub(crate) error: Option<&'a str>,
    /// False when the job is known to belong to no workflow.
    pub(crate) in_workflow: bool,
    /// False when the job is known to hold no unique key.
    pub(crate) holds_key: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) token: Token,
    pub(crate) worker: WorkerId,
    pub(crate) started_at: Time,
}

pub(crate) const INSERT_FINISHED: &str = "insert into windlass_finished
     (id, state, attempt, token, worker, started_at, finished_at, result, error)
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

impl<'a> End<'a> {
    /// The end of a waiting job.
    pub(crate) fn waiting(id: JobId, state: JobState, attempt: u16) -> End<'static> {
        End { id, state, attempt, run: None, result: None, error: None, in_workflow: true, holds_key: true }
    }

    /// The end of a running job, with nothing known about its workflow and key.
    pub(crate) fn ran(id: JobId, state: JobState, attempt: u16, run: Run, error: Option<&'a str>) -> End<'a> {
        End { id, state, attempt, run: Some(run), result: None, error, in_workflow: true, holds_key: true }
    }
}

/// Workflows advance at the end of the call: see `workflow::follow`.
pub(crate) fn finish(scope: &mut Scope<'_>, end: &End<'_>) -> Answer<()> {
    finish_with(&mut scope.connection.prepare_cached(INSERT_FINISHED)?, scope, end)
}

/// Takes a statement that is prepared once for the whole batch.
pub(crate) fn finish_with(
    insert: &mut CachedStatement<'_>,
    scope: &mut Scope<'_>,
    end: &End<'_>,
) -> Answer<()> {
    insert_end(insert, scope, end)?;
    for step in EndStep::ALL {
        match step {
            EndStep::Entities => box_ended(scope, end)?,
            EndStep::Workflows if end.in_workflow => workflow::ended(scope, end.id, end.state)?,
            EndStep::UniqueKeys if end.holds_key => free_key(scope, end.id)?,
            EndStep::Workflows | EndStep::UniqueKeys => {}
        }
    }
    Ok(())
}

fn insert_end(insert: &mut CachedStatement<'_>, scope: &Scope<'_>, end: &End<'_>) -> Answer<()> {
    insert.execute((
        end.id.0,
        end.state.code(),
        end.attempt,
        end.run.map(|run| run.token.0),
        end.run.map(|run| run.worker.0),
        end.run.map(|run| run.started_at.0),
        scope.now.0,
        end.result.filter(|_| end.state == JobState::Completed),
        end.error,
    ))?;
    Ok(())
}

fn free_key(scope: &Scope<'_>, job: JobId) -> Answer<()> {
    let mut delete = scope.connection.prepare_cached("delete from windlass_unique_keys where job_id = ?1")?;
    delete.execute([job.0])?;
    Ok(())
}
