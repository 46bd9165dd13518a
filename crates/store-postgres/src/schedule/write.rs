//! Describing schedules, pausing them and taking them away.

use sqlx::PgConnection;
use windlass_core::schedule::{ScheduleSpec, Standing};
use windlass_core::store::{Put, SchedulePut, ScheduleRecord};
use windlass_core::{StoreError, Time};

use super::read::{columns, record};
use crate::PostgresStore;
use crate::error::failed;
use crate::row::PgTime;

const LOCK: &str = concat!("select ", columns!(), " from windlass.schedules where name = $1 for update");

const INSERT: &str = concat!(
    "insert into windlass.schedules (name, spec, payload, last_tick, next_at, created_at, updated_at)
     values ($1, $2::text::json, $3, $4, $5, $6, $7) on conflict (name) do nothing returning ",
    columns!()
);

const UPDATE: &str = concat!(
    "update windlass.schedules
     set spec = $2::text::json, payload = $3, last_tick = $4, next_at = $5, created_at = $6, updated_at = $7,
         revision = revision + 1
     where name = $1 returning ",
    columns!()
);

const DELETE: &str = "delete from windlass.schedules where name = $1";

const PAUSE: &str = "
    update windlass.schedules
    set paused = $3, revision = revision + 1,
        updated_at = statement_timestamp() + $1::bigint * interval '1 microsecond'
    where name = $2 and paused <> $3";

const OP: &str = "write a schedule";

impl PostgresStore {
    pub(super) async fn write_schedule(&self, spec: &ScheduleSpec) -> Result<SchedulePut, StoreError> {
        loop {
            let mut tx = self.pool.begin().await.map_err(failed(OP))?;
            // Another may have made it since it was looked for: then it is looked at again.
            let Some(put) = self.try_schedule(&mut tx, spec).await? else { continue };
            tx.commit().await.map_err(failed(OP))?;
            if put.what != Put::Same {
                // Its next tick may come before the one everybody waits for.
                self.waker.any();
            }
            return Ok(put);
        }
    }

    async fn try_schedule(
        &self,
        conn: &mut PgConnection,
        spec: &ScheduleSpec,
    ) -> Result<Option<SchedulePut>, StoreError> {
        let kept = spec.to_kept();
        let query = sqlx::query(self.sql(LOCK)).bind(&spec.name);
        let before = query.fetch_optional(&mut *conn).await.map_err(failed(OP))?;
        let before = before.as_ref().map(record).transpose()?;
        let now = self.now_on(conn).await?;
        let (statement, what, stood) = match before {
            Some(record) if record.kept == kept && record.payload == spec.payload => {
                return Ok(Some(SchedulePut { record, what: Put::Same }));
            }
            Some(record) => (UPDATE, Put::Changed, Some((record.created_at, record.last_tick))),
            None => (INSERT, Put::Created, None),
        };
        let standing = spec.stand(stood, now).map_err(|invalid| StoreError::Corrupt {
            what: format!("a schedule nobody checked: {invalid}"),
        })?;
        let written = self.put_row(conn, statement, spec, &kept, standing, now).await?;
        Ok(written.map(|record| SchedulePut { record, what }))
    }

    async fn put_row(
        &self,
        conn: &mut PgConnection,
        statement: &'static str,
        spec: &ScheduleSpec,
        kept: &str,
        standing: Standing,
        now: Time,
    ) -> Result<Option<ScheduleRecord>, StoreError> {
        let row = sqlx::query(self.sql(statement))
            .bind(&spec.name)
            .bind(kept)
            .bind(&spec.payload)
            .bind(PgTime(standing.last_tick))
            .bind(standing.next_at.map(PgTime))
            .bind(PgTime(standing.anchor))
            .bind(PgTime(now))
            .fetch_optional(conn)
            .await
            .map_err(failed(OP))?;
        row.as_ref().map(record).transpose()
    }

    pub(super) async fn drop_schedule(&self, name: &str) -> Result<bool, StoreError> {
        if name.contains('\0') {
            return Ok(false);
        }
        let query = sqlx::query(self.sql(DELETE)).bind(name);
        let done = query.execute(&self.pool).await.map_err(failed("delete a schedule"))?;
        Ok(done.rows_affected() > 0)
    }

    pub(super) async fn hold_schedule(
        &self,
        name: &str,
        paused: bool,
    ) -> Result<Option<ScheduleRecord>, StoreError> {
        if name.contains('\0') {
            return Ok(None);
        }
        let query = sqlx::query(self.sql(PAUSE)).bind(self.offset()).bind(name).bind(paused);
        let done = query.execute(&self.pool).await.map_err(failed("pause a schedule"))?;
        if done.rows_affected() > 0 && !paused {
            self.waker.any();
        }
        self.one_schedule(name).await
    }
}
