//! Reading schedules.

use std::time::Instant;

use sqlx::postgres::PgRow;
use windlass_core::store::{DueSchedules, ScheduleRecord};
use windlass_core::{StoreError, Time};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, count, get, time, time_or_none};

/// The columns for [`record`].
macro_rules! columns {
    () => {
        "name, spec::text as spec, payload, revision, paused, last_tick, next_at, missed, created_at, updated_at"
    };
}
pub(super) use columns;

const ONE: &str = concat!("select ", columns!(), " from windlass.schedules where name = $1");
const LIST: &str =
    concat!("select ", columns!(), " from windlass.schedules where name > $1 order by name limit $2");

/// The left join returns the next time even when no schedule is due.
const DUE: &str = concat!(
    "select d.*, l.later
     from (select (select s.next_at from windlass.schedules s
                   where not s.paused and s.next_at is not null and s.next_at > $1
                   order by s.next_at limit 1) as later) l
     left join lateral (
         select ",
    columns!(),
    "
         from windlass.schedules s
         where not s.paused and s.next_at is not null and s.next_at >= $3 and s.next_at <= $1
         order by s.next_at limit $2) d on true"
);

impl PostgresStore {
    pub(super) async fn list_schedules(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        // No name contains NUL, and Postgres would reject the parameter.
        let after = after.unwrap_or("").replace('\0', "\u{1}");
        let query = sqlx::query(self.sql(LIST)).bind(after).bind(i64::from(limit));
        let rows = query.fetch_all(&self.pool).await.map_err(failed("list schedules"))?;
        rows.iter().map(record).collect()
    }

    pub(super) async fn one_schedule(&self, name: &str) -> Result<Option<ScheduleRecord>, StoreError> {
        if name.contains('\0') {
            return Ok(None);
        }
        let query = sqlx::query(self.sql(ONE)).bind(name);
        let found = query.fetch_optional(&self.pool).await.map_err(failed("read a schedule"))?;
        found.as_ref().map(record).transpose()
    }

    pub(super) async fn find_due(&self, now: Time, limit: u32) -> Result<DueSchedules, StoreError> {
        let start = self.hints.ticks.start(Instant::now());
        let query =
            sqlx::query(self.sql(DUE)).bind(PgTime(now)).bind(i64::from(limit)).bind(PgTime(start.low));
        let rows = query.fetch_all(&self.pool).await.map_err(failed("find due schedules"))?;
        let mut found = DueSchedules::default();
        for row in &rows {
            found.next_at = time_or_none(row, "later")?;
            if get::<Option<&str>>(row, "name")?.is_some() {
                found.due.push(record(row)?);
            }
        }
        let first = found.due.first().and_then(|record| record.next_at).or(found.next_at);
        self.hints.ticks.end(&start, first, Instant::now());
        Ok(found)
    }
}

pub(super) fn record(row: &PgRow) -> Result<ScheduleRecord, StoreError> {
    Ok(ScheduleRecord {
        name: get(row, "name")?,
        kept: get(row, "spec")?,
        payload: get(row, "payload")?,
        revision: get(row, "revision")?,
        paused: get(row, "paused")?,
        last_tick: time(row, "last_tick")?,
        next_at: time_or_none(row, "next_at")?,
        missed: count(row, "missed")?,
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
    })
}
