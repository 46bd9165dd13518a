//! The poll: what is due, when the next job and the next tick are due, and what to stop.
//!
//! One short read that is correct even when every wake-up is lost. The earliest job of each priority is the first
//! entry of an index range, so the only waiting jobs scanned are those of kinds that were not asked about.

use rusqlite::{Connection, OptionalExtension, Params, Statement};
use windlass_core::scale::Bounds;
use windlass_core::store::{Poll, QueueDue, QueueKinds, SuspectsDue};
use windlass_core::sweep::Level;
use windlass_core::{JobId, KindId, Time, WorkerId};

use crate::claim::next_priority;
use crate::error::Answer;
use crate::registry::kind_limits;
use crate::row::duration;
use crate::{lease, schedule};

pub(crate) fn poll(
    connection: &Connection,
    worker: WorkerId,
    served: &[QueueKinds],
    now: Time,
) -> Answer<Poll> {
    let mut queues = Vec::new();
    let mut statement = connection.prepare_cached(
        "select paused, concurrency, concurrency_min, concurrency_max, global_concurrency, boost_after_us
         from windlass_queues where id = ?1",
    )?;
    for (asked, served) in served.iter().enumerate() {
        let settings = statement
            .query_row([served.queue.0], |row| {
                let boost = row.get::<_, Option<i64>>(5)?.map(duration);
                let bounds = row.get::<_, Option<u32>>(2)?.zip(row.get::<_, Option<u32>>(3)?);
                let bounds = bounds.map(|(min, max)| Bounds { min, max });
                Ok((row.get(0)?, row.get(1)?, bounds, row.get(4)?, boost))
            })
            .optional()?;
        let Some((paused, concurrency, bounds, global_concurrency, boost_after)) = settings else { continue };
        queues.push(QueueDue {
            asked,
            queue: served.queue,
            next_due: earlier(next_due(connection, served)?, next_check(connection, served)?),
            suspects: suspects_due(connection, served, now)?,
            paused,
            concurrency,
            global_concurrency,
            bounds,
            boost_after,
        });
    }
    let kinds: Vec<KindId> = served.iter().flat_map(|served| served.kinds.iter().copied()).collect();
    let limits = if kinds.is_empty() { Vec::new() } else { kind_limits(connection, &kinds)? };
    let next_tick = schedule::next_tick(connection)?;
    Ok(Poll { now, queues, limits, next_tick, cancel: cancels(connection, worker)? })
}

/// Leaves out jobs that an ordinary claim does not take.
fn next_due(connection: &Connection, served: &QueueKinds) -> Answer<Option<Time>> {
    let mut statement = connection.prepare_cached(
        "select run_at, kind from windlass_ready where queue = ?1 and priority = ?2 and suspicion <= 1
         order by run_at, id",
    )?;
    let (mut earliest, mut from) = (None, 0);
    while let Some(priority) = next_priority(connection, served.queue, from)? {
        let first = first_of(&mut statement, (served.queue.0, priority), &served.kinds)?;
        earliest = earlier(earliest, first.map(Time));
        from = priority + 1;
    }
    Ok(earliest)
}

/// When the next lane check of a served kind is due.
fn next_check(connection: &Connection, served: &QueueKinds) -> Answer<Option<Time>> {
    let mut statement =
        connection.prepare_cached("select min(at) from windlass_lane_checks where kind = ?1")?;
    let mut earliest = None;
    for kind in &served.kinds {
        let at: Option<i64> = statement.query_row([kind.0], |row| row.get(0))?;
        earliest = earlier(earliest, at.map(Time));
    }
    Ok(earliest)
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The `run_at` of the first row of a served kind. Rows of other kinds are scanned.
fn first_of(statement: &mut Statement<'_>, place: impl Params, kinds: &[KindId]) -> Answer<Option<i64>> {
    let mut rows = statement.query(place)?;
    while let Some(row) = rows.next()? {
        if kinds.contains(&KindId(row.get(1)?)) {
            return Ok(Some(row.get(0)?));
        }
    }
    Ok(None)
}

fn suspects_due(connection: &Connection, served: &QueueKinds, now: Time) -> Answer<SuspectsDue> {
    let mut statement = connection.prepare_cached(
        "select run_at, kind from windlass_ready
         where queue = ?1 and suspicion between max(1, ?2) and ?3 and run_at <= ?4",
    )?;
    let mut due = |level: Level| -> Answer<bool> {
        let (low, high) = level.range();
        Ok(first_of(&mut statement, (served.queue.0, low, high, now.0), &served.kinds)?.is_some())
    };
    Ok(SuspectsDue { first: due(Level::Ordinary)?, second: due(Level::Second)?, trial: due(Level::Trial)? })
}

fn cancels(connection: &Connection, worker: WorkerId) -> Answer<Vec<JobId>> {
    let mut statement = connection.prepare_cached("select job_id from windlass_cancels order by job_id")?;
    let asked = statement.query_map([], |row| row.get(0).map(JobId))?.collect::<Result<Vec<_>, _>>()?;
    if asked.is_empty() {
        return Ok(asked);
    }
    let held = lease::of_worker(connection, worker)?;
    Ok(asked.into_iter().filter(|id| held.iter().any(|claim| claim.holds(*id))).collect())
}
