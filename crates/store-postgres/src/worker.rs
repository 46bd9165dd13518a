//! Workers: one row per registration, kept alive by its heartbeat.
//!
//! Owns `workers`. A missing row means that the worker was declared dead: its heartbeat reports that, and its claims
//! lease nothing. Never reads this machine's clock.

use sqlx::PgConnection;
use windlass_core::store::{Beat, WorkerInfo, WorkerLimits, WorkerRow};
use windlass_core::time::micros;
use windlass_core::{QueueId, StoreError, Time, WorkerId};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, from_micros, get, time};

const NOW: &str = "select statement_timestamp() + $1::bigint * interval '1 microsecond' as now";

const REGISTER: &str = "
    insert into windlass.workers (id, label, queues, lease_us, started_at, heartbeat_at, expires_at)
    select nextval('windlass.worker_seq'), $2, $3, $4::bigint, now, now, now + $4 * interval '1 microsecond'
    from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
    returning id";

const HEARTBEAT: &str = "
    update windlass.workers
    set beats = beats + 1, heartbeat_at = now, expires_at = now + lease_us * interval '1 microsecond'
    from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
    where id = $2";

const WORKERS: &str = "
    select w.id, w.label, w.queues, w.started_at, w.heartbeat_at, w.limits,
           coalesce((select sum(cardinality(c.ids)) from windlass.claims c where c.worker = w.id), 0)::bigint
               as running
    from windlass.workers w order by w.id";

const BEATS: &str = "
    select id, beats, lease_us,
           expires_at < statement_timestamp() + $1::bigint * interval '1 microsecond' as expired
    from windlass.workers order by id";

impl PostgresStore {
    pub(crate) async fn do_now(&self) -> Result<Time, StoreError> {
        let mut conn = self.pool.session().await.map_err(failed("read the clock"))?;
        let now = self.now_on(&mut conn).await?;
        conn.commit().await.map_err(failed("read the clock"))?;
        Ok(now)
    }

    pub(crate) async fn now_on(&self, conn: &mut PgConnection) -> Result<Time, StoreError> {
        let row =
            sqlx::query(NOW).bind(self.offset()).fetch_one(conn).await.map_err(failed("read the clock"))?;
        time(&row, "now")
    }

    pub(crate) async fn do_register_worker(&self, info: &WorkerInfo) -> Result<WorkerId, StoreError> {
        let row = sqlx::query(self.sql(REGISTER))
            .bind(self.offset())
            .bind(&info.label)
            .bind(info.queues.iter().map(|q| q.0).collect::<Vec<_>>())
            .bind(micros(info.lease))
            .fetch_one(&self.pool)
            .await
            .map_err(failed("register a worker"))?;
        Ok(WorkerId(get(&row, "id")?))
    }

    pub(crate) async fn do_heartbeat(&self, worker: WorkerId) -> Result<bool, StoreError> {
        let done = sqlx::query(self.sql(HEARTBEAT))
            .bind(self.offset())
            .bind(worker.0)
            .execute(&self.pool)
            .await
            .map_err(failed("send a heartbeat"))?;
        Ok(done.rows_affected() == 1)
    }

    pub(crate) async fn do_workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        let rows =
            sqlx::query(self.sql(WORKERS)).fetch_all(&self.pool).await.map_err(failed("read the workers"))?;
        let uses = self.uses().await?;
        rows.iter()
            .map(|row| {
                let queues: Vec<i32> = get(row, "queues")?;
                let limits = WorkerLimits::from_json(&get::<String>(row, "limits")?);
                let id = WorkerId(get(row, "id")?);
                Ok(WorkerRow {
                    id,
                    label: get(row, "label")?,
                    queues: queues.into_iter().map(QueueId).collect(),
                    started_at: time(row, "started_at")?,
                    heartbeat_at: time(row, "heartbeat_at")?,
                    running: count(row, "running")?,
                    concurrency: limits.concurrency,
                    resources: uses.of(id, limits.resources),
                })
            })
            .collect()
    }

    pub(crate) async fn do_beats(&self) -> Result<Vec<Beat>, StoreError> {
        let rows = sqlx::query(self.sql(BEATS))
            .bind(self.offset())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("read the heartbeats"))?;
        rows.iter()
            .map(|row| {
                Ok(Beat {
                    worker: WorkerId(get(row, "id")?),
                    beats: get(row, "beats")?,
                    lease: from_micros(get(row, "lease_us")?),
                    expired: get(row, "expired")?,
                    // Differs from SQLite: the server cannot see whether a remote process lives.
                    gone: false,
                })
            })
            .collect()
    }
}
