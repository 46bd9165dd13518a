//! Ending attempts.
//!
//! Owns: the fenced move from claims to finished or back to ready. Each settlement is checked against the claims
//! row of its token. If its job is not in that row, it is stale and changes nothing. Never decides what an outcome
//! means: the verdict comes in.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::lane::Lane;
use windlass_core::outcome::{Return, ReturnAt, ReturnWhy};
use windlass_core::store::{Settled, Wake};
use windlass_core::sweep::Suspicion;
use windlass_core::{JobId, JobState, KindId, LaneId, QueueId, Settlement, UniqueUntil, Verdict};

use crate::end::{End, INSERT_FINISHED, Run, finish, finish_with};
use crate::enqueue::{INSERT_READY, waiting_with};
use crate::error::{Answer, Fault};
use crate::lane::{self, Lanes, check, of_job, release, stored_queue};
use crate::lease::Leases;
use crate::scope::Scope;
use crate::workflow;

pub(crate) fn settle(scope: &mut Scope<'_>, settlements: &[Settlement]) -> Answer<Vec<Settled>> {
    let mut leases = Leases::default();
    let connection = scope.connection;
    let mut cancels = Cancels::load(connection)?;
    let mut insert = connection.prepare_cached(INSERT_FINISHED)?;
    let mut lanes = None;
    let mut answers = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let held = leases.get(scope.connection, settlement.token)?;
        let Some(held) = held.and_then(|held| held.release(settlement.id).then_some(held)) else {
            answers.push(Settled::Stale);
            continue;
        };
        let (token, started_at) = (settlement.token, settlement.started_at);
        let run = Run { token, worker: held.worker, started_at };
        let limited = held.limited;
        let suspicion = held.suspicion;
        let cancelled = cancels.take(connection, settlement.id)?;
        let answer = match &settlement.verdict {
            // A run that ended counts, even when a cancel was requested meanwhile.
            Verdict::End { state, result, error } => {
                let (id, attempt) = (settlement.id, settlement.attempt);
                let (result, error) = (result.as_deref(), error.as_deref());
                let (in_workflow, holds_key) = (settlement.workflow.is_some(), settlement.holds_key);
                let run = Some(run);
                let end = End { id, state: *state, attempt, run, result, error, in_workflow, holds_key };
                finish_with(&mut insert, scope, &end)?;
                if let Some(lane) = settlement.lane {
                    lane::lanes(&mut lanes, connection)?.hand_over(scope, lane)?;
                }
                if limited || settlement.lane.is_some() {
                    scope.wake(Wake::Queue(settlement.queue));
                }
                Settled::Accepted
            }
            Verdict::Return(back) => {
                let left = EndedRun { run, suspicion, cancelled };
                return_settled(scope, &mut lanes, settlement, back, left)?
            }
        };
        answers.push(answer);
    }
    leases.store(scope.connection)?;
    workflow::follow(scope)?;
    Ok(answers)
}

/// The ended run of a job that returns to its queue.
struct EndedRun {
    run: Run,
    suspicion: Suspicion,
    cancelled: bool,
}

fn return_settled<'c>(
    scope: &mut Scope<'c>,
    lanes: &mut Option<Lanes<'c>>,
    settlement: &Settlement,
    back: &Return,
    EndedRun { run, suspicion, cancelled }: EndedRun,
) -> Answer<Settled> {
    let (id, attempt) = (settlement.id, settlement.attempt);
    if cancelled {
        let (state, error) = (JobState::Cancelled, back.error.as_deref());
        finish(scope, &End::ran(id, state, attempt, run, error))?;
        free_slot(scope, id)?;
        scope.wake(Wake::Queue(settlement.queue));
        return Ok(Settled::Cancelled);
    }
    // A job that was handed back did not run to its end, so it is still unknown whether it kills its process.
    let suspicion = if back.why == ReturnWhy::HandBack { suspicion } else { Suspicion::NONE };
    return_to_queue(scope, lanes, &ReturningJob { id, attempt, run, why: back, suspicion })
}

/// A leased job that returns to its queue.
pub(crate) struct ReturningJob<'a> {
    pub(crate) id: JobId,
    pub(crate) attempt: u16,
    pub(crate) run: Run,
    pub(crate) why: &'a Return,
    pub(crate) suspicion: Suspicion,
}

/// Puts the job back, or ends it when another job with its unique key is already waiting.
pub(crate) fn return_to_queue<'c>(
    scope: &mut Scope<'c>,
    lanes: &mut Option<Lanes<'c>>,
    back: &ReturningJob<'_>,
) -> Answer<Settled> {
    let ReturningJob { id, attempt, run, why, suspicion } = back;
    let Waiting { kind, queue, priority, unique_key, lane, .. } = waiting_columns(scope.connection, *id)?;
    if let Some(key) = &unique_key
        && waiting_with(scope.connection, key)?.is_some()
    {
        let error = why.error.as_deref();
        let state = JobState::Superseded;
        finish(scope, &End::ran(*id, state, *attempt, *run, error))?;
        if let Some(lane) = lane {
            lane::lanes(lanes, scope.connection)?.hand_over(scope, lane)?;
            scope.wake(Wake::Queue(QueueId(queue)));
        }
        return Ok(Settled::Superseded);
    }
    let run_at = match why.run_at {
        ReturnAt::In(delay) => scope.now.plus(delay),
        ReturnAt::Place(at) => at,
    };
    let blocked = lane.filter(|_| !why.why.keeps_slot());
    scope.connection.prepare_cached(INSERT_READY)?.execute((
        stored_queue(queue, blocked.is_some()),
        priority,
        run_at.0,
        id.0,
        kind,
        why.attempts_used,
        suspicion.level(),
        unique_key,
        lane.map(|lane| lane.id.0),
    ))?;
    if let Some(lane) = blocked {
        lane::lanes(lanes, scope.connection)?.hand_over(scope, lane)?;
        check(scope, lane, run_at)?;
    }
    scope
        .connection
        .prepare_cached(
            "insert into windlass_attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((
            id.0,
            run.token.0,
            attempt,
            run.worker.0,
            run.started_at.0,
            scope.now.0,
            why.why.name(),
            &why.error,
        ))?;
    scope.wake(Wake::Queue(QueueId(queue)));
    Ok(Settled::Accepted)
}

/// A leased job has ended: frees its slot, if it has a lane.
pub(crate) fn free_slot(scope: &Scope<'_>, id: JobId) -> Answer<()> {
    match of_job(scope.connection, id)? {
        Some(lane) => release(scope, lane),
        None => Ok(()),
    }
}

/// Columns of a job that its ready row repeats.
pub(crate) struct Waiting {
    pub(crate) kind: i32,
    pub(crate) queue: i32,
    pub(crate) priority: u8,
    pub(crate) unique_key: Option<String>,
    pub(crate) until: Option<UniqueUntil>,
    pub(crate) lane: Option<Lane>,
}

pub(crate) fn waiting_columns(connection: &Connection, id: JobId) -> Answer<Waiting> {
    connection
        .prepare_cached(
            "select kind, queue, priority, unique_key, lane, unique_until from windlass_jobs where id = ?1",
        )?
        .query_row([id.0], |row| {
            let kind: i32 = row.get(0)?;
            let lane: Option<i64> = row.get(4)?;
            Ok(Waiting {
                kind,
                queue: row.get(1)?,
                priority: row.get(2)?,
                unique_key: row.get(3)?,
                until: row.get::<_, Option<String>>(5)?.and_then(|name| UniqueUntil::from_name(&name)),
                lane: lane.map(|id| Lane { id: LaneId(id), kind: KindId(kind) }),
            })
        })
        .optional()?
        .ok_or_else(|| Fault::corrupt(format!("job {id} was leased but has no row")))
}

/// Cancel requests for running jobs. Usually there are none, and one query shows that for a whole batch.
pub(crate) struct Cancels {
    any: bool,
}

impl Cancels {
    pub(crate) fn load(connection: &Connection) -> Answer<Cancels> {
        let any = connection
            .prepare_cached("select exists (select 1 from windlass_cancels)")?
            .query_row([], |row| row.get(0))?;
        Ok(Cancels { any })
    }

    /// Removes the cancel request of the job. Returns whether there was one.
    pub(crate) fn take(&mut self, connection: &Connection, id: JobId) -> Answer<bool> {
        if !self.any {
            return Ok(false);
        }
        let gone =
            connection.prepare_cached("delete from windlass_cancels where job_id = ?1")?.execute([id.0])?;
        Ok(gone > 0)
    }
}
