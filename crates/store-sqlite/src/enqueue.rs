//! Writing new jobs.
//!
//! Owns: the insert into jobs and ready, idempotency keys and unique keys. All or nothing per call: the savepoint
//! around a command undoes what came before a refusal. Never checks input: the engine did.

use rusqlite::{CachedStatement, Connection, OptionalExtension};
use windlass_core::lane::Lane;
use windlass_core::store::{Enqueued, Wake};
use windlass_core::time::micros;
use windlass_core::{
    Existing, Idempotency, JobId, JobState, KeyUse, KindId, LaneId, Meeting, NewJob, StoreError, Time,
    Unique, UniqueUntil,
};

use crate::end::{End, finish};
use crate::error::Answer;
use crate::lane::{Lanes, check, lanes, release, stored_queue};
use crate::row::tags_text;
use crate::scope::Scope;
use crate::{unique, window};

// Differs from Postgres: a prepared statement in a loop, not one statement over arrays; there is no round trip to save.
const INSERT_JOB: &str =
    "insert into windlass_jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us,
     payload, unique_key, unique_until, concurrency_key, tags, entity_type, entity_id, lane)
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

pub(crate) const INSERT_READY: &str = "insert into windlass_ready
     (queue, priority, run_at, id, kind, attempt, suspicion, unique_key, lane)
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// In the row of a key that an entity's write took.
pub(crate) const NO_JOB: JobId = JobId(0);

/// Looked up once per call, not once per job.
struct Inserts<'c> {
    job: CachedStatement<'c>,
    ready: CachedStatement<'c>,
    lanes: Option<Lanes<'c>>,
}

pub(crate) fn enqueue(scope: &mut Scope<'_>, jobs: &[NewJob]) -> Answer<Vec<Enqueued>> {
    let mut done = Vec::with_capacity(jobs.len());
    let connection = scope.connection;
    let mut inserts = Inserts {
        job: connection.prepare_cached(INSERT_JOB)?,
        ready: connection.prepare_cached(INSERT_READY)?,
        lanes: None,
    };
    for job in jobs {
        let one = match &job.idempotency {
            Some(key) => idempotent(scope, &mut inserts, job, key)?,
            None => admit(scope, &mut inserts, job)?,
        };
        done.push(one);
    }
    Ok(done)
}

fn idempotent<'c>(
    scope: &mut Scope<'c>,
    inserts: &mut Inserts<'c>,
    job: &NewJob,
    key: &Idempotency,
) -> Answer<Enqueued> {
    let known = scope
        .connection
        .prepare_cached("select job_id, fingerprint from windlass_idempotency where key = ?1")?
        .query_row([&key.key], |row| Ok((JobId(row.get(0)?), row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    match known {
        Some((id, fingerprint)) if fingerprint == key.fingerprint => Ok(Enqueued { id, duplicate: true }),
        Some((id, _)) => {
            let existing = if id == NO_JOB { KeyUse::Entity } else { KeyUse::Job(id) };
            Err(StoreError::IdempotencyMismatch { key: key.key.clone(), existing }.into())
        }
        None => {
            let one = admit(scope, inserts, job)?;
            scope
                .connection
                .prepare_cached(
                    "insert into windlass_idempotency (key, job_id, fingerprint, created_at) values (?1, ?2, ?3, ?4)",
                )?
                .execute((&key.key, one.id.0, &key.fingerprint, scope.now.0))?;
            Ok(one)
        }
    }
}

/// Inserts the job unless its unique key says otherwise.
fn admit<'c>(scope: &mut Scope<'c>, inserts: &mut Inserts<'c>, job: &NewJob) -> Answer<Enqueued> {
    let mut run_at = job.run_at.from(scope.now);
    let Some(unique) = &job.unique else {
        return Ok(Enqueued { id: insert(scope, inserts, job, run_at)?, duplicate: false });
    };
    let waiting = waiting_with(scope.connection, &unique.key)?;
    let met = match &waiting {
        Some(waiting) => Some((waiting.id, Existing::Waiting)),
        None => held(scope, unique)?.map(|id| (id, Existing::Claimed)),
    };
    match met.map(|(id, existing)| (id, unique.meets(existing))) {
        None => {}
        Some((_, Meeting::Replace)) => {
            if let Some(waiting) = &waiting {
                run_at = run_at.min(waiting.run_at);
                supersede(scope, waiting)?;
            }
        }
        Some((id, Meeting::Duplicate)) => return Ok(Enqueued { id, duplicate: true }),
        Some((existing, Meeting::Refuse)) => {
            return Err(StoreError::UniqueRejected { key: unique.key.clone(), existing }.into());
        }
    }
    let id = insert(scope, inserts, job, run_at)?;
    unique::hold(scope, unique, id)?;
    window::open(scope, unique, id)?;
    Ok(Enqueued { id, duplicate: false })
}

/// The job that has the key and does not wait: it runs and holds the key until its end, or its window lasts.
fn held(scope: &Scope<'_>, unique: &Unique) -> Answer<Option<JobId>> {
    let holder = match unique.until {
        UniqueUntil::Finished => unique::holder(scope, &unique.key)?,
        UniqueUntil::Started => None,
    };
    match holder {
        Some(holder) => Ok(Some(holder)),
        None => window::lasting(scope, unique),
    }
}

fn insert<'c>(scope: &mut Scope<'c>, inserts: &mut Inserts<'c>, job: &NewJob, run_at: Time) -> Answer<JobId> {
    let id = scope.next_job_id()?;
    let lane = job.lane().map(|id| Lane { id, kind: job.kind });
    let lane_id = lane.map(|lane| lane.id.0);
    let unique_key = job.unique.as_ref().map(|Unique { key, .. }| key);
    let entity = job.entity.as_ref();
    inserts.job.execute((
        id,
        job.kind.0,
        job.queue.0,
        job.priority,
        job.max_attempts,
        scope.now.0,
        job.timeout.map(micros),
        &job.payload,
        unique_key,
        job.unique.as_ref().map(|unique| unique.until.name()),
        &job.concurrency_key,
        tags_text(&job.tags),
        entity.map(|e| &e.entity_type),
        entity.map(|e| &e.entity_id),
        lane_id,
    ))?;
    inserts.ready.execute((
        stored_queue(job.queue.0, lane.is_some()),
        job.priority,
        run_at.0,
        id,
        job.kind.0,
        0,
        0,
        unique_key,
        lane_id,
    ))?;
    if let Some(lane) = lane
        && lanes(&mut inserts.lanes, scope.connection)?.needs_check(scope, lane, run_at)?
    {
        check(scope, lane, run_at)?;
    }
    scope.wake(if run_at <= scope.now { Wake::Due(job.queue) } else { Wake::Queue(job.queue) });
    Ok(JobId(id))
}

/// The waiting job with a unique key.
pub(crate) struct Waiting {
    pub(crate) id: JobId,
    pub(crate) run_at: Time,
    pub(crate) attempt: u16,
    lane: Option<Lane>,
    /// It holds a slot of its lane.
    holds_slot: bool,
}

pub(crate) fn waiting_with(connection: &Connection, key: &str) -> Answer<Option<Waiting>> {
    let waiting = connection
        .prepare_cached(
            "select id, run_at, attempt, lane, kind, queue > 0 from windlass_ready where unique_key = ?1",
        )?
        .query_row([key], |row| {
            let kind = KindId(row.get(4)?);
            let lane = row.get::<_, Option<i64>>(3)?.map(|id| Lane { id: LaneId(id), kind });
            Ok(Waiting {
                id: JobId(row.get(0)?),
                run_at: Time(row.get(1)?),
                attempt: row.get(2)?,
                lane,
                holds_slot: lane.is_some() && row.get(5)?,
            })
        })
        .optional()?;
    Ok(waiting)
}

/// Ends a waiting job in favour of a newer one.
pub(crate) fn supersede(scope: &mut Scope<'_>, waiting: &Waiting) -> Answer<()> {
    scope.connection.prepare_cached("delete from windlass_ready where id = ?1")?.execute([waiting.id.0])?;
    if let Some(lane) = waiting.lane.filter(|_| waiting.holds_slot) {
        release(scope, lane)?;
        scope.wake(Wake::Any);
    }
    finish(scope, &End::waiting(waiting.id, JobState::Superseded, waiting.attempt))
}
