//! Leases whose worker is gone.
//!
//! Owns: taking back everything a dead worker leased, and what a retiring one leaves. `core::sweep::lost` decides
//! about each job; this module writes the result. Never touches a worker that sent a heartbeat since it was
//! examined.

use rusqlite::OptionalExtension;
use windlass_core::outcome::{Return, ReturnAt, ReturnWhy};
use windlass_core::store::{DeadLetter, Reclaimed, Settled, Wake};
use windlass_core::sweep::{Death, Lost, LostLease, lost};
use windlass_core::{JobId, JobState, KindId, QueueId, Settlement, Time, Token, Verdict, WorkerId};

use crate::end::{End, Run, finish};
use crate::error::{Answer, Fault};
use crate::lane::Lanes;
use crate::lease::{self, Held};
use crate::scope::Scope;
use crate::settle::{Cancels, ReturningJob, free_slot, return_to_queue, settle};
use crate::workflow;

pub(crate) fn reclaim(scope: &mut Scope<'_>, death: &Death) -> Answer<Option<Reclaimed>> {
    let Death { beat, explained } = death;
    let gone = scope
        .connection
        .prepare_cached("delete from windlass_workers where id = ?1 and beats = ?2")?
        .execute((beat.worker.0, beat.beats))?;
    if gone == 0 {
        return Ok(None);
    }
    let mut tally = Reclaimed::default();
    let mut cancels = Cancels::load(scope.connection)?;
    let mut lanes = None;
    for held in lease::of_worker(scope.connection, beat.worker)? {
        for (id, place) in held.ids.iter().zip(held.places()?) {
            take_back(scope, &mut lanes, &held, (JobId(*id), place, *explained), &mut cancels, &mut tally)?;
        }
    }
    forget_claims(scope, beat.worker)?;
    workflow::follow(scope)?;
    scope.wake(Wake::Any);
    Ok(Some(tally))
}

fn take_back<'c>(
    scope: &mut Scope<'c>,
    lanes: &mut Option<Lanes<'c>>,
    held: &Held,
    (id, place, explained): (JobId, Time, bool),
    cancels: &mut Cancels,
    tally: &mut Reclaimed,
) -> Answer<()> {
    let job = leased(scope, id)?;
    let lease = LostLease {
        job: id,
        suspicion: held.suspicion,
        alone: held.alone,
        explained,
        at_most_once: job.at_most_once,
        cancel_requested: cancels.take(scope.connection, id)?,
    };
    let run = Run { token: held.token, worker: held.worker, started_at: held.claimed_at };
    let end = |state, error| End::ran(id, state, held.attempt, run, error);
    match lost(lease) {
        Lost::Cancelled => {
            finish(scope, &end(JobState::Cancelled, None))?;
            free_slot(scope, id)?;
            tally.cancelled += 1;
        }
        Lost::DeadLetter { error } => {
            finish(scope, &end(JobState::DeadLetter, Some(&error)))?;
            free_slot(scope, id)?;
            let (queue, kind) = (QueueId(held.queue), job.kind);
            tally.dead_letters.push(DeadLetter { id, queue, kind, run_at: place, ended_at: scope.now });
        }
        Lost::Return { suspicion, delay } => {
            let run_at = delay.map_or(ReturnAt::Place(place), ReturnAt::In);
            let attempts_used = held.attempt.saturating_sub(1);
            let why = Return { why: ReturnWhy::Lost, attempts_used, run_at, error: None };
            let back = ReturningJob { id, attempt: held.attempt, run, why: &why, suspicion };
            match return_to_queue(scope, lanes, &back)? {
                Settled::Superseded => tally.superseded += 1,
                _ => tally.returned += 1,
            }
        }
    }
    Ok(())
}

/// Columns of a leased job that its claim does not have.
struct Leased {
    kind: KindId,
    at_most_once: bool,
}

fn leased(scope: &Scope<'_>, id: JobId) -> Answer<Leased> {
    scope
        .connection
        .prepare_cached("select j.kind, k.at_most_once from windlass_jobs j join windlass_kinds k on k.id = j.kind where j.id = ?1")?
        .query_row([id.0], |row| Ok(Leased { kind: KindId(row.get(0)?), at_most_once: row.get(1)? }))
        .optional()?
        .ok_or_else(|| Fault::corrupt(format!("job {id} was leased but has no row")))
}

fn forget_claims(scope: &Scope<'_>, worker: WorkerId) -> Answer<()> {
    scope.connection.prepare_cached("delete from windlass_claims where worker = ?1")?.execute([worker.0])?;
    Ok(())
}

/// A clean shutdown. Jobs that are still leased return through an ordinary settlement, as if handed back.
pub(crate) fn retire_worker(scope: &mut Scope<'_>, worker: WorkerId) -> Answer<()> {
    release_unknown(scope, worker, &[])?;
    scope.connection.prepare_cached("delete from windlass_workers where id = ?1")?.execute([worker.0])?;
    scope.wake(Wake::Any);
    Ok(())
}

pub(crate) fn release_unknown(scope: &mut Scope<'_>, worker: WorkerId, known: &[Token]) -> Answer<u64> {
    let mut left = Vec::new();
    for held in lease::of_worker(scope.connection, worker)? {
        if known.contains(&held.token) {
            continue;
        }
        let back = |place| Return {
            why: ReturnWhy::HandBack,
            attempts_used: held.attempt.saturating_sub(1),
            run_at: ReturnAt::Place(place),
            error: None,
        };
        left.extend(held.ids.iter().zip(held.places()?).map(|(id, place)| Settlement {
            id: JobId(*id),
            token: held.token,
            queue: QueueId(held.queue),
            attempt: held.attempt,
            started_at: held.claimed_at,
            // A hand-back keeps its slot. It ends only a cancelled job, which looks up its workflow and lane
            // itself.
            workflow: None,
            lane: None,
            holds_key: true,
            verdict: Verdict::Return(back(place)),
        }));
    }
    settle(scope, &left)?;
    Ok(left.len() as u64)
}
