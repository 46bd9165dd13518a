//! Creating, changing, pausing and deleting schedules.

use sqlx::PgConnection;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::schedule::{SchedulePosition, ScheduleSpec};
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

const DELETE: &str = concat!("delete from windlass.schedules where name = $1 returning ", columns!());

const PAUSE: &str = "
    update windlass.schedules
    set paused = $3, revision = revision + 1,
        updated_at = statement_timestamp() + $1::bigint * interval '1 microsecond'
    where name = $2 and paused <> $3";

const OP: &str = "write a schedule";

impl PostgresStore {
    pub(super) async fn write_schedule(
        &self,
        spec: &ScheduleSpec,
        actor: Option<&Actor>,
    ) -> Result<SchedulePut, StoreError> {
        loop {
            let mut tx = self.pool.begin().await.map_err(failed(OP))?;
            // Another process may have created it meanwhile; then it is read again.
            let Some(put) = self.try_schedule(&mut tx, spec, actor).await? else { continue };
            tx.commit().await.map_err(failed(OP))?;
            if put.what != Put::Same {
                // Its next tick may be earlier than the one that workers wait for.
                self.waker.any();
            }
            return Ok(put);
        }
    }

    async fn try_schedule(
        &self,
        conn: &mut PgConnection,
        spec: &ScheduleSpec,
        actor: Option<&Actor>,
    ) -> Result<Option<SchedulePut>, StoreError> {
        let kept = spec.to_kept();
        let query = sqlx::query(self.sql(LOCK)).bind(&spec.name);
        let before = query.fetch_optional(&mut *conn).await.map_err(failed(OP))?;
        let before = before.as_ref().map(record).transpose()?;
        let now = self.now_on(conn).await?;
        let (statement, what, progress) = match &before {
            Some(record) if record.kept == kept && record.payload == spec.payload => {
                return Ok(Some(SchedulePut { record: record.clone(), what: Put::Same }));
            }
            Some(record) => (UPDATE, Put::Changed, Some((record.created_at, record.last_tick))),
            None => (INSERT, Put::Created, None),
        };
        let standing = spec
            .position(progress, now)
            .map_err(|invalid| StoreError::Corrupt { what: format!("an unchecked schedule: {invalid}") })?;
        let Some(record) = self.put_row(conn, statement, spec, &kept, standing, now).await? else {
            return Ok(None);
        };
        self.note(conn, actor, NewAudit::schedule_put(before.as_ref(), &record).as_ref()).await?;
        Ok(Some(SchedulePut { record, what }))
    }

    async fn put_row(
        &self,
        conn: &mut PgConnection,
        statement: &'static str,
        spec: &ScheduleSpec,
        kept: &str,
        standing: SchedulePosition,
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

    pub(super) async fn drop_schedule(&self, name: &str, actor: Option<&Actor>) -> Result<bool, StoreError> {
        const OP: &str = "delete a schedule";
        if name.contains('\0') {
            return Ok(false);
        }
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let query = sqlx::query(self.sql(DELETE)).bind(name);
        let gone = query.fetch_optional(&mut *tx).await.map_err(failed(OP))?;
        let gone = gone.as_ref().map(record).transpose()?;
        self.note(&mut tx, actor, gone.as_ref().and_then(NewAudit::schedule_deleted).as_ref()).await?;
        tx.commit().await.map_err(failed(OP))?;
        Ok(gone.is_some())
    }

    pub(super) async fn set_paused(
        &self,
        name: &str,
        paused: bool,
        actor: Option<&Actor>,
    ) -> Result<Option<ScheduleRecord>, StoreError> {
        const OP: &str = "pause a schedule";
        if name.contains('\0') {
            return Ok(None);
        }
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let query = sqlx::query(self.sql(PAUSE)).bind(self.offset()).bind(name).bind(paused);
        let changed = query.execute(&mut *tx).await.map_err(failed(OP))?.rows_affected() > 0;
        if changed {
            self.note(&mut tx, actor, NewAudit::schedule_paused(name, paused).as_ref()).await?;
        }
        tx.commit().await.map_err(failed(OP))?;
        if changed && !paused {
            self.waker.any();
        }
        self.one_schedule(name).await
    }
}
