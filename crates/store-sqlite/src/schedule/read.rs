//! Reading schedules.

use rusqlite::{Connection, OptionalExtension, Params, Row};
use windlass_core::Time;
use windlass_core::store::{DueSchedules, ScheduleRecord};

use crate::error::Answer;

macro_rules! select {
    ($which:literal) => {
        concat!(
            "select name, spec, payload, revision, paused, last_tick, next_at, missed, created_at, updated_at
             from windlass_schedules where ",
            $which
        )
    };
}

fn record(row: &Row<'_>) -> rusqlite::Result<ScheduleRecord> {
    Ok(ScheduleRecord {
        name: row.get(0)?,
        kept: row.get(1)?,
        payload: row.get(2)?,
        revision: row.get(3)?,
        paused: row.get(4)?,
        last_tick: Time(row.get(5)?),
        next_at: row.get::<_, Option<i64>>(6)?.map(Time),
        missed: row.get::<_, i64>(7)?.unsigned_abs(),
        created_at: Time(row.get(8)?),
        updated_at: Time(row.get(9)?),
    })
}

fn all(connection: &Connection, sql: &str, asked: impl Params) -> Answer<Vec<ScheduleRecord>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(asked, record)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn list(connection: &Connection, after: &str, limit: u32) -> Answer<Vec<ScheduleRecord>> {
    all(connection, select!("name > ?1 order by name limit ?2"), (after, limit))
}

pub(super) fn one(connection: &Connection, name: &str) -> Answer<Option<ScheduleRecord>> {
    Ok(connection.prepare_cached(select!("name = ?1"))?.query_row([name], record).optional()?)
}

pub(super) fn due(connection: &Connection, now: Time, limit: u32) -> Answer<DueSchedules> {
    let due = all(
        connection,
        select!("paused = 0 and next_at is not null and next_at <= ?1 order by next_at limit ?2"),
        (now.0, limit),
    )?;
    Ok(DueSchedules { due, next_at: next_after(connection, now.0)? })
}

/// When the first of all schedules is due.
pub(crate) fn next_tick(connection: &Connection) -> Answer<Option<Time>> {
    next_after(connection, i64::MIN)
}

fn next_after(connection: &Connection, after: i64) -> Answer<Option<Time>> {
    let next = connection
        .prepare_cached(
            "select next_at from windlass_schedules
             where paused = 0 and next_at is not null and next_at > ?1 order by next_at limit 1",
        )?
        .query_row([after], |row| row.get(0).map(Time))
        .optional()?;
    Ok(next)
}
