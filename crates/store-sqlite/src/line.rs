//! Lines: who waits behind whom in a lane.
//!
//! Owns: the entries of `windlass_lines`, in the order of each line. A job that is claimed leaves its entry behind, and some
//! settlements clear away what others left, so that the page of a line is not written for every job of it. What an entry
//! says is therefore checked against `ready` before it is believed. Never knows of slots.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use windlass_core::queue::MAX_PRIORITY;
use windlass_core::{JobId, KindId, LaneId, QueueId, Time};

use crate::claim::OUT;
use crate::error::Answer;
use crate::scope::Scope;

/// Priority, time and id under which a job stands in line.
pub(crate) type Place = (u8, Time, JobId);

/// Who stands first in line.
pub(crate) struct First {
    pub(crate) priority: u8,
    pub(crate) run_at: Time,
    pub(crate) id: JobId,
    /// None for a suspect.
    pub(crate) attempt: Option<u16>,
}

/// What the line has, and whether that job still stands there.
macro_rules! from_line {
    ($where:literal, $most:literal) => {
        concat!(
            "select l.priority, l.run_at, l.id, r.id is not null, iif(r.suspect is null, r.attempt, null)
             from windlass_lines l left join windlass_ready r
                  on r.queue = -?1 and r.priority = l.priority and r.run_at = l.run_at and r.id = l.id
             where l.lane = ?2 and ",
            $where,
            " order by l.priority, l.run_at, l.id limit ",
            $most
        )
    };
}

const FROM: &str = from_line!("l.priority >= ?3", "1");
const DUE: &str = from_line!("r.id is not null and l.priority = ?3 and l.run_at <= ?4", "?5");

/// Who stands behind whom, and whether somebody more urgent is in line; reads nothing but the line.
macro_rules! behind {
    ($urgent:literal) => {
        concat!(
            "select priority, run_at, id, attempt, ",
            $urgent,
            " from windlass_lines where lane = ?1 and priority = ?2 and (run_at, id) > (?3, ?4)
             order by run_at, id limit 1"
        )
    };
}

const BEHIND: &str = behind!("exists (select 1 from windlass_lines u where u.lane = ?1 and u.priority < ?2)");
/// Where nobody is more urgent.
const BEHIND_FIRST: &str = behind!("0");

/// What jobs left behind that stood before this one.
const CLEAR: &str = "delete from windlass_lines as l
     where l.lane = ?2 and l.priority = ?3 and (l.run_at, l.id) <= (?4, ?5)
       and not exists (select 1 from windlass_ready r
                       where r.queue = -?1 and r.priority = l.priority and r.run_at = l.run_at and r.id = l.id)";

/// An entry of a line.
struct Entry {
    first: First,
    /// The job stands there.
    there: bool,
}

impl Entry {
    fn read(row: &Row<'_>) -> rusqlite::Result<Entry> {
        let first = First {
            priority: row.get(0)?,
            run_at: Time(row.get(1)?),
            id: JobId(row.get(2)?),
            attempt: row.get(4)?,
        };
        Ok(Entry { first, there: row.get(3)? })
    }
}

/// Jobs of the kind stand in line under this priority, from now on or before.
pub(crate) fn note_urgency(connection: &Connection, kind: KindId, priority: u8) -> Answer<()> {
    connection
        .prepare_cached("update windlass_kinds set lined = ?2 where id = ?1 and lined > ?2")?
        .execute((kind.0, priority))?;
    Ok(())
}

/// The job, which stands in ready so already, stands in line from now on.
pub(crate) fn get_in_line(connection: &Connection, id: JobId) -> Answer<()> {
    let stands: Option<(i32, u8)> = connection
        .prepare_cached("select kind, priority from windlass_ready where id = ?1 and queue < 0")?
        .query_row([id.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((kind, priority)) = stands else { return Ok(()) };
    note_urgency(connection, KindId(kind), priority)?;
    connection
        .prepare_cached(
            "insert or replace into windlass_lines (lane, priority, run_at, id, attempt)
             select lane, priority, run_at, id, iif(suspect is null, attempt, null)
             from windlass_ready where id = ?1 and queue < 0",
        )?
        .execute([id.0])?;
    Ok(())
}

pub(crate) fn leave_line(connection: &Connection, lane: LaneId, (priority, run_at, id): Place) -> Answer<()> {
    connection
        .prepare_cached(
            "delete from windlass_lines where lane = ?1 and priority = ?2 and run_at = ?3 and id = ?4",
        )?
        .execute((lane.0, priority, run_at.0, id.0))?;
    Ok(())
}

/// The next lane after this one in which somebody stood.
pub(crate) fn next_line(connection: &Connection, after: Option<LaneId>) -> Answer<Option<LaneId>> {
    let lane: Option<i64> = connection
        .prepare_cached("select min(lane) from windlass_lines where lane > ?1")?
        .query_row([after.map_or(i64::MIN, |lane| lane.0)], |row| row.get(0))?;
    Ok(lane.map(LaneId))
}

/// The queue of who stands in a lane whose line may have more than one priority. Where all entries have one, as in most,
/// nothing else is read.
pub(crate) fn mixed(connection: &Connection, lane: LaneId) -> Answer<Option<QueueId>> {
    let mixed: bool = connection
        .prepare_cached(
            "select (select min(priority) from windlass_lines where lane = ?1)
                    < (select max(priority) from windlass_lines where lane = ?1)",
        )?
        .query_row([lane.0], |row| row.get(0))?;
    if !mixed {
        return Ok(None);
    }
    let queue = connection
        .prepare_cached(
            "select -r.queue from windlass_lines l join windlass_ready r on r.id = l.id
             where l.lane = ?1 and r.queue < 0 limit 1",
        )?
        .query_row([lane.0], |row| row.get(0).map(QueueId))
        .optional()?;
    Ok(queue)
}

/// The longest due of each priority behind `first`; suspects are left out.
pub(crate) fn less_urgent(
    connection: &Connection,
    queue: QueueId,
    lane: LaneId,
    first: u8,
) -> Answer<Vec<Place>> {
    let mut statement = connection.prepare_cached(FROM)?;
    let (mut from, mut found) = (first + 1, Vec::new());
    while let Some(entry) = statement.query_row((queue.0, lane.0, from), Entry::read).optional()? {
        let First { priority, run_at, id, attempt } = entry.first;
        if !entry.there {
            leave_line(connection, lane, (priority, run_at, id))?;
            continue;
        }
        if attempt.is_some() {
            found.push((priority, run_at, id));
        }
        from = priority + 1;
    }
    Ok(found)
}

/// Looked up once per call, not once per lane.
pub(crate) struct Line<'c> {
    behind: CachedStatement<'c>,
    behind_first: CachedStatement<'c>,
    out: CachedStatement<'c>,
}

impl<'c> Line<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Answer<Line<'c>> {
        Ok(Line {
            behind: connection.prepare_cached(BEHIND)?,
            behind_first: connection.prepare_cached(BEHIND_FIRST)?,
            out: connection.prepare_cached(OUT)?,
        })
    }

    /// The first that is due now that the job is gone which `stood` there, or when the next one will be. Nobody of its kind
    /// stands in line under a more urgent priority than `lined`.
    pub(crate) fn next(
        &mut self,
        scope: &Scope<'_>,
        queue: QueueId,
        lane: LaneId,
        (stood, lined): (Option<Place>, u8),
    ) -> Answer<Result<First, Option<Time>>> {
        match stood {
            Some(stood) if clears_up(stood.2) => clear(scope.connection, queue, lane, stood)?,
            Some(stood) => {
                if let Some(first) = self.behind(scope.now, lane, stood, lined)? {
                    return Ok(Ok(first));
                }
            }
            None => {}
        }
        self.first(scope, queue, lane)
    }

    /// The first that is due, or when the next one will be. Jobs ahead of their time are passed over a priority at a
    /// time, however many they are; what jobs left behind that are gone is cleared away.
    pub(crate) fn first(
        &mut self,
        scope: &Scope<'_>,
        queue: QueueId,
        lane: LaneId,
    ) -> Answer<Result<First, Option<Time>>> {
        let mut statement = scope.connection.prepare_cached(FROM)?;
        let (mut from, mut next) = (0, None);
        while let Some(entry) = statement.query_row((queue.0, lane.0, from), Entry::read).optional()? {
            let First { priority, run_at, id, .. } = entry.first;
            if !entry.there {
                leave_line(scope.connection, lane, (priority, run_at, id))?;
            } else if run_at <= scope.now {
                return Ok(Ok(entry.first));
            } else {
                next = Some(next.map_or(run_at, |next: Time| next.min(run_at)));
                from = priority + 1;
            }
        }
        Ok(Err(next))
    }

    /// Who stands right behind a job that was first, unless somebody more urgent is in line or nobody behind is due.
    fn behind(
        &mut self,
        now: Time,
        lane: LaneId,
        (priority, run_at, id): Place,
        lined: u8,
    ) -> Answer<Option<First>> {
        let behind = if priority <= lined { &mut self.behind_first } else { &mut self.behind };
        let found = behind
            .query_row((lane.0, priority, run_at.0, id.0), |row| {
                let first = First {
                    priority: row.get(0)?,
                    run_at: Time(row.get(1)?),
                    id: JobId(row.get(2)?),
                    attempt: row.get(3)?,
                };
                Ok((first, row.get::<_, bool>(4)?))
            })
            .optional()?;
        Ok(found.filter(|(first, urgent)| first.run_at <= now && !urgent).map(|(first, _)| first))
    }

    /// True when the job stood there, in line, and is gone now.
    pub(crate) fn leave(&mut self, queue: QueueId, priority: u8, run_at: Time, id: JobId) -> Answer<bool> {
        Ok(self.out.execute((-queue.0, priority, run_at.0, id.0))? == 1)
    }

    /// So many of those that are due, as they stand in line.
    pub(crate) fn due(
        &mut self,
        scope: &Scope<'_>,
        queue: QueueId,
        lane: LaneId,
        most: usize,
    ) -> Answer<Vec<First>> {
        if most <= 1 {
            let first = if most == 1 { self.first(scope, queue, lane)?.ok() } else { None };
            return Ok(first.into_iter().collect());
        }
        let mut statement = scope.connection.prepare_cached(DUE)?;
        let mut found = Vec::new();
        for priority in 0..=MAX_PRIORITY {
            let left = (most - found.len()).cast_signed() as i64;
            let rows = statement.query_map((queue.0, lane.0, priority, scope.now.0, left), Entry::read)?;
            for row in rows {
                found.push(row?.first);
            }
        }
        if found.is_empty() {
            // Clears away what was left behind, which would otherwise stay as long as nobody comes.
            found.extend(self.first(scope, queue, lane)?.ok());
        }
        Ok(found)
    }
}

/// One in so many looks at the line from its beginning when it ends, and clears away what those before it left there: the
/// page of a line is then written once for all of them. Any rule would do that is not in step with how keys take turns.
fn clears_up(job: JobId) -> bool {
    job.0.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59 == 0
}

fn clear(connection: &Connection, queue: QueueId, lane: LaneId, (priority, run_at, id): Place) -> Answer<()> {
    connection.prepare_cached(CLEAR)?.execute((queue.0, lane.0, priority, run_at.0, id.0))?;
    Ok(())
}
