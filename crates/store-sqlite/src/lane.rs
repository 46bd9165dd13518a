//! Lanes: slots, looks, and what is offered to who stands first in line.
//!
//! Owns: slots and looks, and who is offered what. A settlement offers its slot again; whoever else frees a slot, and
//! whoever puts a job in line beside a free one, leaves a look, which claims follow. So a job that is due stands in line
//! only while its lane is full, a slot of it is offered or a look is left there. Never says who holds a slot: who
//! runs, and who came back unrun.

use rusqlite::{CachedStatement, Connection, Row};
use windlass_core::lane::{Lane, Slot, place};
use windlass_core::{JobId, KindId, LaneId, QueueId, Time};

use crate::error::Answer;
use crate::line::{First, Line};
use crate::scope::Scope;
use crate::turn::{Offer, Offers, Stand};

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

/// A job that held a slot no longer stands among the ready or running ones.
pub(crate) fn release(scope: &Scope<'_>, lane: Lane) -> Answer<()> {
    free(scope, lane)?;
    leave_look(scope, lane, scope.now, true)
}

/// The highest goes, so those that are taken are always the lowest.
fn free(scope: &Scope<'_>, lane: Lane) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "delete from windlass_slots
             where lane = ?1 and slot = (select max(slot) from windlass_slots where lane = ?1)",
        )?
        .execute([lane.id.0])?;
    Ok(())
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
        let mut lanes = Lanes::new(scope.connection)?;
        for (lane, freed_at) in by_lane(&looks) {
            lanes.fill(scope, Lane { id: lane, kind: *kind }, freed_at)?;
        }
        lanes.store(scope.connection)?;
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

/// What a kind says of its lanes.
#[derive(Clone, Copy)]
struct Limit {
    kind: KindId,
    queue: QueueId,
    slots: u16,
    /// More may be taken in some lane: it was lowered.
    lowered: bool,
    /// Nobody stands in line under a more urgent priority.
    lined: u8,
}

fn limit(connection: &Connection, kind: KindId) -> Answer<Limit> {
    let limit = connection
        .prepare_cached(
            "select queue, key_concurrency, key_lowered, lined from windlass_kinds where id = ?1",
        )?
        .query_row([kind.0], |row| {
            let queue = QueueId(row.get(0)?);
            Ok(Limit { kind, queue, slots: row.get(1)?, lowered: row.get(2)?, lined: row.get(3)? })
        })?;
    Ok(limit)
}

/// Looked up once per call, not once per lane.
pub(crate) struct Lanes<'c> {
    pub(crate) line: Line<'c>,
    highest: CachedStatement<'c>,
    limits: Vec<Limit>,
    offers: Offers,
}

/// Those of this call, made when they are first needed.
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
    pub(crate) fn new(connection: &'c Connection) -> Answer<Lanes<'c>> {
        Ok(Lanes {
            line: Line::new(connection)?,
            highest: connection.prepare_cached("select max(slot) from windlass_slots where lane = ?1")?,
            limits: Vec::new(),
            offers: Offers::default(),
        })
    }

    /// The same for a whole call: whoever changes it does so in a call of its own. One who comes back in this call, more
    /// urgent than anybody before, is offered the slot he leaves, whatever is noted.
    fn limit(&mut self, connection: &Connection, kind: KindId) -> Answer<Limit> {
        if let Some(known) = self.limits.iter().find(|limit| limit.kind == kind) {
            return Ok(*known);
        }
        let limit = limit(connection, kind)?;
        self.limits.push(limit);
        Ok(limit)
    }

    fn taken(&mut self, lane: LaneId) -> Answer<u16> {
        let highest: Option<u16> = self.highest.query_row([lane.0], |row| row.get(0))?;
        Ok(highest.unwrap_or(0))
    }

    fn offer(&mut self, queue: QueueId, lane: Lane, to: &First, place: Time, tie: i64) {
        let stand = Stand { queue, priority: to.priority, place, kind: lane.kind };
        let offer = Offer { lane: lane.id, id: to.id, run_at: to.run_at, attempt: to.attempt };
        self.offers.make(stand, tie, offer);
    }

    /// Writes what was offered: without it a slot stays taken by nobody.
    pub(crate) fn store(&mut self, connection: &Connection) -> Answer<()> {
        self.offers.store(connection)
    }

    /// A job that held a slot has ended, or waits in line again: the slot is offered to who stands first there. Not
    /// while more are taken than a limit that was lowered allows. Slots that get free at once are offered in the order
    /// of their lanes, which is that of the lines.
    pub(crate) fn hand_over(
        &mut self,
        scope: &Scope<'_>,
        queue: QueueId,
        job: JobId,
        Slot { lane, stood }: Slot,
    ) -> Answer<()> {
        let limit = self.limit(scope.connection, lane.kind)?;
        let stood = stood.map(|(priority, run_at)| (priority, run_at, job));
        match self.line.next(scope, queue, lane.id, (stood, limit.lined))? {
            Ok(_) if limit.lowered && self.taken(lane.id)? > limit.slots => release(scope, lane),
            Ok(first) => {
                self.offer(queue, lane, &first, place(first.run_at, Some(scope.now)), lane.id.0);
                Ok(())
            }
            Err(next) => self.give_up(scope, lane, next),
        }
    }

    /// Nobody wants the slot before `next`.
    pub(crate) fn give_up(&mut self, scope: &Scope<'_>, lane: Lane, next: Option<Time>) -> Answer<()> {
        free(scope, lane)?;
        next.map_or(Ok(()), |next| look(scope, lane, next))
    }

    /// Whether a job that gets in line at `run_at` has to call: who holds the last slot looks when it settles.
    pub(crate) fn must_call(&mut self, scope: &Scope<'_>, lane: Lane, run_at: Time) -> Answer<bool> {
        if run_at > scope.now {
            return Ok(true);
        }
        let limit = self.limit(scope.connection, lane.kind)?;
        Ok(self.taken(lane.id)? < limit.slots)
    }

    /// Offers what is free to as many as are due. Those a slot was offered to before are counted again: a turn too many
    /// is given up when a claim comes to it.
    fn fill(&mut self, scope: &Scope<'_>, lane: Lane, freed_at: Option<Time>) -> Answer<()> {
        let limit = self.limit(scope.connection, lane.kind)?;
        let free = self.taken(lane.id)? + 1..=limit.slots;
        let mut insert =
            scope.connection.prepare_cached("insert into windlass_slots (lane, slot) values (?1, ?2)")?;
        let due = self.line.due(scope, limit.queue, lane.id, free.len())?;
        for (slot, first) in free.zip(due) {
            insert.execute((lane.id.0, slot))?;
            self.offer(limit.queue, lane, &first, place(first.run_at, freed_at), first.id.0);
        }
        Ok(())
    }
}
