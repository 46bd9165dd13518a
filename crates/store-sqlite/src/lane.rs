//! Lanes: giving free slots to blocked jobs.
//!
//! Owns `windlass_lane_slots` and `windlass_lane_checks`. A settle hands its slot to the next blocked job of the
//! lane. Any other change that frees a slot, or blocks a job beside a free slot, leaves a lane check, which claims
//! follow. `windlass_core::order` decides which job is next. Never records which job holds which slot: with one
//! writer the count is enough.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use windlass_core::lane::{Lane, place};
use windlass_core::order::next_in_lane;
use windlass_core::{JobId, KindId, LaneId, QueueId, Time};

use crate::error::Answer;
use crate::row::duration;
use crate::scope::Scope;

/// Checks of a kind that one claim follows. The next claim takes the rest.
const MOST_CHECKS: i64 = 1_000;

/// The first blocked job of the lane with this priority or a less urgent one. Reads one entry of
/// `windlass_ready_blocked`.
pub(crate) const FROM_PRIORITY: &str = "select priority, run_at, id from windlass_ready
     where queue < 0 and lane = ?1 and priority >= ?2 order by priority, run_at, id limit 1";

const DUE_OF_PRIORITY: &str = "select priority, run_at, id from windlass_ready
     where queue < 0 and lane = ?1 and priority = ?2 and run_at <= ?3 order by run_at, id limit ?4";

const MAKE_READY: &str = "update windlass_ready set queue = ?1, run_at = ?5
     where queue = -?1 and priority = ?2 and run_at = ?3 and id = ?4";

pub(crate) fn of_job(connection: &Connection, job: JobId) -> Answer<Option<Lane>> {
    let mut statement = connection.prepare_cached("select lane, kind from windlass_jobs where id = ?1")?;
    let mut rows = statement.query([job.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (id, kind) = (row.get::<_, Option<i64>>(0)?, KindId(row.get(1)?));
    Ok(id.map(|id| Lane { id: LaneId(id), kind }))
}

/// The queue number of a waiting job's row: that of its queue, negated for a blocked job.
pub(crate) fn stored_queue(queue: i32, blocked: bool) -> i32 {
    if blocked { -queue } else { queue }
}

/// Asks claims from `at` on to fill the lane.
pub(crate) fn check(scope: &Scope<'_>, lane: Lane, at: Time) -> Answer<()> {
    leave_check(scope, lane, at, false)
}

/// A job that held a slot is no longer ready or running.
pub(crate) fn release(scope: &Scope<'_>, lane: Lane) -> Answer<()> {
    free(scope, lane)?;
    leave_check(scope, lane, scope.now, true)
}

/// Removes the highest slot number, so that the numbers in use are always the lowest.
fn free(scope: &Scope<'_>, lane: Lane) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "delete from windlass_lane_slots
             where lane = ?1 and slot = (select max(slot) from windlass_lane_slots where lane = ?1)",
        )?
        .execute([lane.id.0])?;
    Ok(())
}

fn leave_check(scope: &Scope<'_>, lane: Lane, at: Time, freed: bool) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert into windlass_lane_checks (kind, at, lane, freed) values (?1, ?2, ?3, ?4)
             on conflict (kind, at, lane) do update set freed = max(freed, excluded.freed)",
        )?
        .execute((lane.kind.0, at.0, lane.id.0, freed))?;
    Ok(())
}

/// The limit of the kind was raised, so every lane may have room.
pub(crate) fn check_all(scope: &Scope<'_>, kind: KindId) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert or ignore into windlass_lane_checks (kind, at, lane, freed)
             select distinct kind, ?2, lane, 1 from windlass_ready where queue < 0 and kind = ?1",
        )?
        .execute((kind.0, scope.now.0))?;
    Ok(())
}

/// Fills the lanes of these kinds that have due checks.
pub(crate) fn follow_checks(scope: &Scope<'_>, kinds: &[KindId]) -> Answer<()> {
    let mut lanes = Lanes::new(scope.connection)?;
    for kind in kinds {
        let checks = due_checks(scope, *kind)?;
        let Some((at, last, _)) = checks.last() else { continue };
        scope
            .connection
            .prepare_cached("delete from windlass_lane_checks where kind = ?1 and (at, lane) <= (?2, ?3)")?
            .execute((kind.0, at.0, last.0))?;
        for (lane, freed_at) in by_lane(&checks) {
            lanes.fill(scope, Lane { id: lane, kind: *kind }, freed_at)?;
        }
    }
    Ok(())
}

fn due_checks(scope: &Scope<'_>, kind: KindId) -> Answer<Vec<(Time, LaneId, bool)>> {
    let mut statement = scope.connection.prepare_cached(
        "select at, lane, freed from windlass_lane_checks where kind = ?1 and at <= ?2 order by at, lane limit ?3",
    )?;
    let read = |row: &Row<'_>| Ok((Time(row.get(0)?), LaneId(row.get(1)?), row.get(2)?));
    let rows = statement.query_map((kind.0, scope.now.0, MOST_CHECKS), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Each lane once, in the order of their first checks, with the latest time a slot of it became free.
fn by_lane(checks: &[(Time, LaneId, bool)]) -> Vec<(LaneId, Option<Time>)> {
    let mut places = HashMap::with_capacity(checks.len());
    let mut lanes: Vec<(LaneId, Option<Time>)> = Vec::with_capacity(checks.len());
    for (at, lane, freed) in checks {
        let n = *places.entry(*lane).or_insert(lanes.len());
        if n == lanes.len() {
            lanes.push((*lane, None));
        }
        if *freed {
            lanes[n].1 = Some(*at);
        }
    }
    lanes
}

/// The lane settings of a kind.
#[derive(Clone, Copy)]
struct Limit {
    kind: KindId,
    queue: QueueId,
    slots: u16,
    boost_after: Option<Duration>,
}

type Blocked = (u8, Time, JobId);

/// Statements prepared once per call instead of once per lane.
pub(crate) struct Lanes<'c> {
    highest: CachedStatement<'c>,
    from_priority: CachedStatement<'c>,
    make_ready: CachedStatement<'c>,
    limits: Vec<Limit>,
}

/// Prepared on first use: a caller's transaction would parse them again each time.
pub(crate) fn lanes<'l, 'c>(
    known: &'l mut Option<Lanes<'c>>,
    connection: &'c Connection,
) -> Answer<&'l mut Lanes<'c>> {
    match known {
        Some(lanes) => Ok(lanes),
        none => Ok(none.insert(Lanes::new(connection)?)),
    }
}

impl<'c> Lanes<'c> {
    fn new(connection: &'c Connection) -> Answer<Lanes<'c>> {
        Ok(Lanes {
            highest: connection
                .prepare_cached("select max(slot) from windlass_lane_slots where lane = ?1")?,
            from_priority: connection.prepare_cached(FROM_PRIORITY)?,
            make_ready: connection.prepare_cached(MAKE_READY)?,
            limits: Vec::new(),
        })
    }

    fn limit(&mut self, connection: &Connection, kind: KindId) -> Answer<Limit> {
        if let Some(known) = self.limits.iter().find(|limit| limit.kind == kind) {
            return Ok(*known);
        }
        let limit = connection
            .prepare_cached(
                "select k.queue, k.key_concurrency, q.boost_after_us
                 from windlass_kinds k join windlass_queues q on q.id = k.queue where k.id = ?1",
            )?
            .query_row([kind.0], |row| {
                let boost_after = row.get::<_, Option<i64>>(2)?.map(duration);
                Ok(Limit { kind, queue: QueueId(row.get(0)?), slots: row.get(1)?, boost_after })
            })?;
        self.limits.push(limit);
        Ok(limit)
    }

    fn taken(&mut self, lane: LaneId) -> Answer<u16> {
        let highest: Option<u16> = self.highest.query_row([lane.0], |row| row.get(0))?;
        Ok(highest.unwrap_or(0))
    }

    /// Whether a job blocked until `run_at` needs a check. In a full lane the next settle finds it.
    pub(crate) fn needs_check(&mut self, scope: &Scope<'_>, lane: Lane, run_at: Time) -> Answer<bool> {
        let limit = self.limit(scope.connection, lane.kind)?;
        Ok(run_at > scope.now || self.taken(lane.id)? < limit.slots)
    }

    /// A job that held a slot has ended or is blocked again, so the slot goes to the next job of the lane. Not
    /// while more slots are taken than a lowered limit allows.
    pub(crate) fn hand_over(&mut self, scope: &Scope<'_>, lane: Lane) -> Answer<()> {
        let limit = self.limit(scope.connection, lane.kind)?;
        let next = match self.taken(lane.id)? > limit.slots {
            true => Vec::new(),
            false => self.next(scope, lane.id, &limit, 1)?,
        };
        match next.first() {
            Some(job) => self.make_ready(&limit, job, Some(scope.now)),
            None => free(scope, lane),
        }
    }

    fn fill(&mut self, scope: &Scope<'_>, lane: Lane, freed_at: Option<Time>) -> Answer<()> {
        let limit = self.limit(scope.connection, lane.kind)?;
        let free = self.taken(lane.id)? + 1..=limit.slots;
        let mut insert = scope
            .connection
            .prepare_cached("insert into windlass_lane_slots (lane, slot) values (?1, ?2)")?;
        let next = self.next(scope, lane.id, &limit, free.len())?;
        for (slot, job) in free.zip(&next) {
            insert.execute((lane.id.0, slot))?;
            self.make_ready(&limit, job, freed_at)?;
        }
        Ok(())
    }

    fn make_ready(&mut self, limit: &Limit, job: &Blocked, freed_at: Option<Time>) -> Answer<()> {
        let (priority, run_at, id) = job;
        let place = place(*run_at, freed_at);
        self.make_ready.execute((limit.queue.0, priority, run_at.0, id.0, place.0))?;
        Ok(())
    }

    /// The next due jobs of a lane. Seeks from priority to priority, so delayed jobs are never scanned.
    fn next(&mut self, scope: &Scope<'_>, lane: LaneId, limit: &Limit, most: usize) -> Answer<Vec<Blocked>> {
        let (mut from, mut due) = (0, Vec::new());
        while most > 0
            && let Some(first) = self.from_priority.query_row((lane.0, from), blocked).optional()?
        {
            match first.1 <= scope.now {
                true if most == 1 => due.push(first),
                true => due.extend(due_of_priority(scope, lane, first.0, most)?),
                false => {}
            }
            if limit.boost_after.is_none() && due.len() >= most {
                break;
            }
            from = first.0 + 1;
        }
        if due.len() <= 1 {
            return Ok(due);
        }
        let next = next_in_lane(due.clone(), scope.now, limit.boost_after, most);
        Ok(next.iter().filter_map(|id| due.iter().find(|job| job.2 == *id).copied()).collect())
    }
}

fn due_of_priority(scope: &Scope<'_>, lane: LaneId, priority: u8, most: usize) -> Answer<Vec<Blocked>> {
    let mut statement = scope.connection.prepare_cached(DUE_OF_PRIORITY)?;
    let rows = statement.query_map((lane.0, priority, scope.now.0, most.cast_signed() as i64), blocked)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn blocked(row: &Row<'_>) -> rusqlite::Result<Blocked> {
    Ok((row.get(0)?, Time(row.get(1)?), JobId(row.get(2)?)))
}
