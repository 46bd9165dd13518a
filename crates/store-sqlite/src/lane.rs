//! Lanes: slots, looks, and the promotion of what stands first in line.
//!
//! Owns: the slots and the looks, and the ways from the line into the ready jobs. A settlement hands its slot to who
//! stands first in line; whoever else frees a slot, and whoever puts a job in line beside a free one, leaves a look,
//! which claims follow. So a job that is due stands in line only while its lane is full or a look is left there. Never
//! counts what runs: a slot says it.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use windlass_core::lane::{Lane, free_slots, place};
use windlass_core::{JobId, KindId, LaneId, Time};

use crate::error::Answer;
use crate::scope::Scope;

/// Lanes looked at in one claim; the next goes on.
const LOOKS: usize = 1_000;

pub(crate) fn of_job(connection: &Connection, job: JobId) -> Answer<Option<Lane>> {
    let mut statement = connection.prepare_cached("select lane, kind from windlass_jobs where id = ?1")?;
    let mut rows = statement.query([job.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (id, kind) = (row.get::<_, Option<i64>>(0)?, KindId(row.get(1)?));
    Ok(id.map(|id| Lane { id: LaneId(id), kind }))
}

/// Something may be promoted from `at` on.
pub(crate) fn look(scope: &Scope<'_>, lane: Lane, at: Time) -> Answer<()> {
    leave_look(scope, lane, at, false)
}

/// The job no longer stands among the ready or running ones; a job that held no slot gives none back.
pub(crate) fn release(scope: &Scope<'_>, lane: Lane, job: JobId) -> Answer<()> {
    if free(scope, lane, job)? { leave_look(scope, lane, scope.now, true) } else { Ok(()) }
}

fn free(scope: &Scope<'_>, lane: Lane, job: JobId) -> Answer<bool> {
    let freed = scope
        .connection
        .prepare_cached("delete from windlass_slots where lane = ?1 and job_id = ?2")?
        .execute((lane.id.0, job.0))?;
    Ok(freed > 0)
}

fn leave_look(scope: &Scope<'_>, lane: Lane, at: Time, freed: bool) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert into windlass_looks (kind, at, lane, freed) values (?1, ?2, ?3, ?4)
             on conflict (kind, at, lane) do update set freed = max(freed, excluded.freed)",
        )?
        .execute((lane.kind.0, at.0, lane.id.0, freed))?;
    Ok(())
}

/// The number a waiting job stands under: that of its queue, or its negative for one that waits in line.
pub(crate) fn standing(queue: i32, lined: bool) -> i32 {
    if lined { -queue } else { queue }
}

/// Follows the looks that are due in the lanes of these kinds.
pub(crate) fn promote(scope: &Scope<'_>, kinds: &[KindId]) -> Answer<()> {
    for kind in kinds {
        let looks = Look::due(scope, *kind)?;
        let Some(last) = looks.last() else { continue };
        forget(scope, *kind, last)?;
        let mut line = Line::new(scope.connection)?;
        for (lane, freed_at) in by_lane(&looks) {
            line.fill(scope, Lane { id: lane, kind: *kind }, freed_at)?;
        }
    }
    Ok(())
}

/// There is room in every lane of the kind.
pub(crate) fn look_everywhere(scope: &Scope<'_>, kind: KindId) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert or ignore into windlass_looks (kind, at, lane, freed)
             select distinct kind, ?2, lane, 1 from windlass_ready where queue < 0 and kind = ?1",
        )?
        .execute((kind.0, scope.now.0))?;
    Ok(())
}

struct Look {
    at: Time,
    lane: LaneId,
    freed: bool,
}

impl Look {
    fn due(scope: &Scope<'_>, kind: KindId) -> Answer<Vec<Look>> {
        let mut statement = scope.connection.prepare_cached(
            "select at, lane, freed from windlass_looks where kind = ?1 and at <= ?2 order by at, lane limit ?3",
        )?;
        let read =
            |row: &Row<'_>| Ok(Look { at: Time(row.get(0)?), lane: LaneId(row.get(1)?), freed: row.get(2)? });
        let rows = statement.query_map((kind.0, scope.now.0, LOOKS.cast_signed() as i64), read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Each lane once, with the moment a slot of it got free last, in the order in which the lanes called.
fn by_lane(looks: &[Look]) -> Vec<(LaneId, Option<Time>)> {
    let mut places = std::collections::HashMap::with_capacity(looks.len());
    let mut lanes: Vec<(LaneId, Option<Time>)> = Vec::with_capacity(looks.len());
    for look in looks {
        let n = *places.entry(look.lane).or_insert(lanes.len());
        if n == lanes.len() {
            lanes.push((look.lane, None));
        }
        if look.freed {
            lanes[n].1 = Some(look.at);
        }
    }
    lanes
}

/// The looks up to `last`, which are followed now.
fn forget(scope: &Scope<'_>, kind: KindId, last: &Look) -> Answer<()> {
    scope
        .connection
        .prepare_cached("delete from windlass_looks where kind = ?1 and (at, lane) <= (?2, ?3)")?
        .execute((kind.0, last.at.0, last.lane.0))?;
    Ok(())
}

fn limit(connection: &Connection, kind: KindId) -> Answer<u16> {
    let limit = connection
        .prepare_cached("select key_concurrency from windlass_kinds where id = ?1")?
        .query_row([kind.0], |row| row.get(0))?;
    Ok(limit)
}

/// Who stands first in line.
struct First {
    queue: i32,
    priority: u8,
    run_at: Time,
    id: JobId,
}

/// Of this priority or a less urgent one, due or not.
const FIRST: &str = "select queue, priority, run_at, id from windlass_ready indexed by windlass_ready_lined
     where lane = ?1 and queue < 0 and priority >= ?2 order by priority, run_at, id limit 1";

const MOVE: &str = "update windlass_ready set queue = -queue, run_at = ?5
     where queue = ?1 and priority = ?2 and run_at = ?3 and id = ?4";

/// By key alone: with a condition that reads the table it would go through a temporary one, at twice the price of all.
const HAND: &str = "update windlass_slots set job_id = ?3 where lane = ?1 and slot = ?2";

/// Looked up once per call, not once per lane.
pub(crate) struct Line<'c> {
    first: CachedStatement<'c>,
    out: CachedStatement<'c>,
    slots: CachedStatement<'c>,
    hand: CachedStatement<'c>,
    limits: Vec<(KindId, u16)>,
}

/// The one of this call, made when it is first needed.
pub(crate) fn line<'l, 'c>(
    known: &'l mut Option<Line<'c>>,
    connection: &'c Connection,
) -> Answer<&'l mut Line<'c>> {
    match known {
        Some(line) => Ok(line),
        none => Ok(none.insert(Line::new(connection)?)),
    }
}

impl<'c> Line<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Answer<Line<'c>> {
        Ok(Line {
            first: connection.prepare_cached(FIRST)?,
            out: connection.prepare_cached(MOVE)?,
            slots: connection.prepare_cached("select slot, job_id from windlass_slots where lane = ?1")?,
            hand: connection.prepare_cached(HAND)?,
            limits: Vec::new(),
        })
    }

    /// The same for a whole call: whoever changes it does so in a call of its own.
    fn limit(&mut self, connection: &Connection, kind: KindId) -> Answer<u16> {
        if let Some((_, limit)) = self.limits.iter().find(|(of, _)| *of == kind) {
            return Ok(*limit);
        }
        let limit = limit(connection, kind)?;
        self.limits.push((kind, limit));
        Ok(limit)
    }

    fn slots(&mut self, lane: LaneId) -> Answer<Vec<(u16, JobId)>> {
        let rows = self.slots.query_map([lane.0], |row| Ok((row.get(0)?, JobId(row.get(1)?))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The slot of the job, unless one above a limit that was lowered is taken: then it is too early to hand it on.
    fn slot_to_hand(&mut self, lane: LaneId, job: JobId, limit: u16) -> Answer<Option<u16>> {
        let slots = self.slots(lane)?;
        let within = slots.iter().all(|(slot, _)| *slot <= limit);
        Ok(slots.iter().find(|(_, holder)| within && *holder == job).map(|(slot, _)| *slot))
    }

    /// The first that is due, or when the next one will be. Jobs ahead of their time are passed over a priority at a
    /// time, however many they are.
    fn first(&mut self, lane: LaneId, now: Time) -> Answer<Result<First, Option<Time>>> {
        let (mut from, mut next) = (0, None);
        while let Some(first) = self.first_from(lane, from)? {
            if first.run_at <= now {
                return Ok(Ok(first));
            }
            next = Some(next.map_or(first.run_at, |next: Time| next.min(first.run_at)));
            from = first.priority + 1;
        }
        Ok(Err(next))
    }

    fn first_from(&mut self, lane: LaneId, priority: u8) -> Answer<Option<First>> {
        let read = |row: &Row<'_>| {
            Ok(First {
                queue: row.get(0)?,
                priority: row.get(1)?,
                run_at: Time(row.get(2)?),
                id: JobId(row.get(3)?),
            })
        };
        Ok(self.first.query_row((lane.0, priority), read).optional()?)
    }

    fn promote(&mut self, first: &First, freed_at: Option<Time>) -> Answer<()> {
        let First { queue, priority, run_at, id } = first;
        self.out.execute((queue, priority, run_at.0, id.0, place(*run_at, freed_at).0))?;
        Ok(())
    }

    /// The job has ended, or waits in line again: its slot goes to who stands first there. A job that held none gives none.
    pub(crate) fn hand_over(&mut self, scope: &Scope<'_>, lane: Lane, job: JobId) -> Answer<()> {
        match self.first(lane.id, scope.now)? {
            Ok(first) => {
                let limit = self.limit(scope.connection, lane.kind)?;
                let Some(slot) = self.slot_to_hand(lane.id, job, limit)? else {
                    return release(scope, lane, job);
                };
                self.hand.execute((lane.id.0, slot, first.id.0))?;
                self.promote(&first, Some(scope.now))
            }
            Err(Some(next)) if free(scope, lane, job)? => look(scope, lane, next),
            Err(_) => free(scope, lane, job).map(drop),
        }
    }

    /// Whether a job that gets in line at `run_at` has to call: who stands there already has, and who settles looks.
    pub(crate) fn must_call(&mut self, scope: &Scope<'_>, lane: Lane, run_at: Time) -> Answer<bool> {
        if run_at > scope.now {
            return Ok(true);
        }
        if self.first_from(lane.id, 0)?.is_some_and(|first| first.run_at <= scope.now) {
            return Ok(false);
        }
        let limit = self.limit(scope.connection, lane.kind)?;
        Ok(self.slots(lane.id)?.len() < usize::from(limit))
    }

    fn fill(&mut self, scope: &Scope<'_>, lane: Lane, freed_at: Option<Time>) -> Answer<()> {
        let taken: Vec<u16> = self.slots(lane.id)?.iter().map(|(slot, _)| *slot).collect();
        let limit = self.limit(scope.connection, lane.kind)?;
        for slot in free_slots(&taken, limit) {
            let Ok(first) = self.first(lane.id, scope.now)? else { break };
            self.promote(&first, freed_at)?;
            scope
                .connection
                .prepare_cached("insert into windlass_slots (lane, slot, job_id) values (?1, ?2, ?3)")?
                .execute((lane.id.0, slot, first.id.0))?;
        }
        Ok(())
    }
}
