//! Lanes: slots, looks, and the promotion of what stands first in line.
//!
//! Owns: the slots and the looks, and the one way from the line into the ready jobs. Whoever frees a slot or puts a job
//! in line leaves a look; claims follow them. Never counts what runs: a slot says it.

use rusqlite::{Connection, Row};
use windlass_core::lane::{free_slots, place};
use windlass_core::{JobId, KindId, LaneId, Time};

use crate::error::Answer;
use crate::scope::Scope;

/// Lanes looked at in one claim; the next goes on.
const LOOKS: usize = 1_000;

/// The lane of a job and the kind it is of.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    pub(crate) kind: KindId,
}

impl Lane {
    pub(crate) fn of_job(connection: &Connection, job: JobId) -> Answer<Option<Lane>> {
        let mut statement =
            connection.prepare_cached("select lane, kind from windlass_jobs where id = ?1")?;
        let mut rows = statement.query([job.0])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (id, kind) = (row.get::<_, Option<i64>>(0)?, KindId(row.get(1)?));
        Ok(id.map(|id| Lane { id: LaneId(id), kind }))
    }

    /// Something may be promoted from `at` on.
    pub(crate) fn look(self, scope: &Scope<'_>, at: Time) -> Answer<()> {
        self.leave_look(scope, at, false)
    }

    /// The job no longer stands among the ready or running ones; a job that held no slot gives none back.
    pub(crate) fn release(self, scope: &Scope<'_>, job: JobId) -> Answer<()> {
        let freed = scope
            .connection
            .prepare_cached("delete from windlass_slots where lane = ?1 and job_id = ?2")?
            .execute((self.id.0, job.0))?;
        if freed > 0 { self.leave_look(scope, scope.now, true) } else { Ok(()) }
    }

    fn leave_look(self, scope: &Scope<'_>, at: Time, freed: bool) -> Answer<()> {
        scope
            .connection
            .prepare_cached(
                "insert into windlass_looks (kind, at, lane, freed) values (?1, ?2, ?3, ?4)
                 on conflict (kind, at, lane) do update set freed = max(freed, excluded.freed)",
            )?
            .execute((self.kind.0, at.0, self.id.0, freed))?;
        Ok(())
    }

    fn slots(self, connection: &Connection) -> Answer<Vec<u16>> {
        let mut statement = connection.prepare_cached("select slot from windlass_slots where lane = ?1")?;
        let rows = statement.query_map([self.id.0], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
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
        let limit = limit(scope.connection, *kind)?;
        for (lane, freed_at) in by_lane(&looks) {
            promote_in(scope, Lane { id: lane, kind: *kind }, limit, freed_at)?;
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

fn first_in_line(scope: &Scope<'_>, lane: LaneId, room: usize) -> Answer<Vec<First>> {
    let mut statement = scope.connection.prepare_cached(
        "select queue, priority, run_at, id from windlass_ready indexed by windlass_ready_lined
         where lane = ?1 and queue < 0 and run_at <= ?2 order by priority, run_at, id limit ?3",
    )?;
    let rows = statement.query_map((lane.0, scope.now.0, room.cast_signed() as i64), |row| {
        Ok(First {
            queue: row.get(0)?,
            priority: row.get(1)?,
            run_at: Time(row.get(2)?),
            id: JobId(row.get(3)?),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn promote_in(scope: &Scope<'_>, lane: Lane, limit: u16, freed_at: Option<Time>) -> Answer<()> {
    let free = free_slots(&lane.slots(scope.connection)?, limit);
    if free.is_empty() {
        return Ok(());
    }
    for (first, slot) in first_in_line(scope, lane.id, free.len())?.into_iter().zip(free) {
        let First { queue, priority, run_at, id } = first;
        scope
            .connection
            .prepare_cached(
                "update windlass_ready set queue = -queue, run_at = ?5
                 where queue = ?1 and priority = ?2 and run_at = ?3 and id = ?4",
            )?
            .execute((queue, priority, run_at.0, id.0, place(run_at, freed_at).0))?;
        scope
            .connection
            .prepare_cached("insert into windlass_slots (lane, slot, job_id) values (?1, ?2, ?3)")?
            .execute((lane.id.0, slot, id.0))?;
    }
    Ok(())
}
