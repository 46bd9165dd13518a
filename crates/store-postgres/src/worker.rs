//! Workers: one row per registration, kept alive by its heartbeat.
//!
//! Owns `workers`. A missing row means that the worker was declared dead: its heartbeat reports that, and its claims
//! lease nothing. Never reads this machine's clock.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::store::{WorkerInfo, WorkerLimits, WorkerRow};
use windlass_core::sweep::{Beat, Look, Presence};
use windlass_core::time::micros;
use windlass_core::{QueueId, StoreError, Time, WorkerId};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, from_micros, get, time};

const NOW: &str = "select statement_timestamp() + $1::bigint * interval '1 microsecond' as now";

const REGISTER: &str = "
    insert into windlass.workers (id, label, queues, lease_us, started_at, heartbeat_at, expires_at, lock_key)
    select nextval('windlass.worker_seq'), $2, $3, $4::bigint, now, now, now + $4 * interval '1 microsecond', $5
    from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
    returning id";

pub(crate) const HEARTBEAT: &str = "
    update windlass.workers
    set beats = beats + 1, heartbeat_at = now, expires_at = now + lease_us * interval '1 microsecond'
    from (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now) n
    where id = $2";

const WORKERS: &str = "
    select w.id, w.label, w.queues, w.started_at, w.heartbeat_at, w.limits,
           coalesce((select sum(cardinality(c.ids)) from windlass.claims c where c.worker = w.id), 0)::bigint
               as running
    from windlass.workers w order by w.id";

const ANNOUNCE_STOP: &str = "update windlass.workers set stopping = true where id = $1";

/// The locks are read and never tried: a sweeper that took one would hide a worker that comes back.
const LOOK: &str = "
    select w.id, w.beats, w.lease_us, w.stopping,
           w.expires_at < statement_timestamp() + $1::bigint * interval '1 microsecond' as expired,
           w.heartbeat_at < pg_postmaster_start_time() + $1::bigint * interval '1 microsecond' as before_restart,
           w.lock_key is not null as has_lock, l.key is not null as locked,
           (extract(epoch from statement_timestamp() - pg_postmaster_start_time()) * 1e6)::bigint as uptime_us
    from windlass.workers w
    left join (select distinct (classid::bigint << 32) | objid::bigint as key from pg_locks
               where locktype = 'advisory' and objsubid = 1 and granted
                 and database = (select oid from pg_database where datname = current_database())) l
        on l.key = w.lock_key
    order by w.id";

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
        // Locked before the row exists, so that no sweeper sees the worker without its lock.
        let lock_key = self.lock_session.lock(info.lease).await;
        let row = sqlx::query(self.sql(REGISTER))
            .bind(self.offset())
            .bind(&info.label)
            .bind(info.queues.iter().map(|q| q.0).collect::<Vec<_>>())
            .bind(micros(info.lease))
            .bind(lock_key)
            .fetch_one(&self.pool)
            .await
            .map_err(failed("register a worker"))?;
        let worker = WorkerId(get(&row, "id")?);
        if let Some(key) = lock_key {
            self.lock_session.registered(key, worker);
        }
        Ok(worker)
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

    pub(crate) async fn do_announce_stop(&self, worker: WorkerId) -> Result<(), StoreError> {
        let query = sqlx::query(self.sql(ANNOUNCE_STOP)).bind(worker.0);
        query.execute(&self.pool).await.map_err(failed("announce a stop"))?;
        Ok(())
    }

    pub(crate) async fn do_look(&self) -> Result<Look, StoreError> {
        let query = sqlx::query(self.sql(LOOK)).bind(self.offset());
        let rows = query.fetch_all(&self.pool).await.map_err(failed("read the heartbeats"))?;
        let beats = rows.iter().map(beat).collect::<Result<_, _>>()?;
        let uptime = rows.first().map(|row| get(row, "uptime_us")).transpose()?.map(from_micros);
        Ok(Look { beats, uptime })
    }
}

fn beat(row: &PgRow) -> Result<Beat, StoreError> {
    let presence = match (get(row, "has_lock")?, get(row, "locked")?) {
        (false, _) => Presence::Unknown,
        (true, true) => Presence::Locked,
        (true, false) => Presence::SessionLost,
    };
    Ok(Beat {
        worker: WorkerId(get(row, "id")?),
        beats: get(row, "beats")?,
        lease: from_micros(get(row, "lease_us")?),
        expired: get(row, "expired")?,
        presence,
        stopping: get(row, "stopping")?,
        before_restart: get(row, "before_restart")?,
    })
}
