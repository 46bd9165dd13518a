//! Queues and kinds: what is configured, what an operator changed live, and how full each queue is.
//!
//! Owns `queues` and `kinds`. Configuration never overwrites a live setting. No figure here counts past
//! [`DEPTH_SHOWN`]: a full queue must not make its own gauge slow.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::store::{DEPTH_SHOWN, KindMoved, QueueState, QueueUpdate};
use windlass_core::time::micros;
use windlass_core::{Backoff, KindId, KindSpec, QueueId, QueueSpec, StoreError};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{big_in, count, duration_or_none, from_micros, get, priority, small, small_in};

const PUT_QUEUE: &str = "
    insert into windlass.queues as q (name, priority, concurrency, cadence_us, sla_us, owner, colour, depth_cap)
    values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (name) do update
    set priority = excluded.priority, concurrency = excluded.concurrency, cadence_us = excluded.cadence_us,
        sla_us = excluded.sla_us, owner = excluded.owner, colour = excluded.colour, depth_cap = excluded.depth_cap
    where $9 and (q.priority, q.concurrency, q.cadence_us, q.sla_us, q.owner, q.colour, q.depth_cap)
        is distinct from (excluded.priority, excluded.concurrency, excluded.cadence_us, excluded.sla_us,
                          excluded.owner, excluded.colour, excluded.depth_cap)";

const PUT_KIND: &str = "
    insert into windlass.kinds as k (name, queue, priority, max_attempts, timeout_us, backoff_base_us,
                                     backoff_cap_us, description)
    select $1, q.id, $3, $4, $5, $6, $7, $8 from windlass.queues q where q.name = $2
    on conflict (name) do update
    set priority = excluded.priority, max_attempts = excluded.max_attempts, timeout_us = excluded.timeout_us,
        backoff_base_us = excluded.backoff_base_us, backoff_cap_us = excluded.backoff_cap_us,
        description = excluded.description
    where k.queue = excluded.queue
      and (k.priority, k.max_attempts, k.timeout_us, k.backoff_base_us, k.backoff_cap_us, k.description)
        is distinct from (excluded.priority, excluded.max_attempts, excluded.timeout_us, excluded.backoff_base_us,
                          excluded.backoff_cap_us, excluded.description)";

const KIND_HOME: &str = "
    select q.name from windlass.kinds k join windlass.queues q on q.id = k.queue where k.name = $1";

const KINDS: &str = "
    select k.id, k.queue, k.name, q.name as queue_name, k.priority, k.max_attempts, k.timeout_us,
           k.backoff_base_us, k.backoff_cap_us, k.description
    from windlass.kinds k join windlass.queues q on q.id = k.queue order by k.name";

const QUEUES: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
    select q.id, q.name, q.priority, coalesce(q.live_concurrency, q.concurrency) as concurrency, q.cadence_us,
           q.sla_us, q.owner, q.colour, q.paused,
           case when q.live_depth_cap_set then q.live_depth_cap else q.depth_cap end as depth_cap,
           coalesce((select sum(cardinality(c.ids)) from windlass.claims c where c.queue = q.id), 0)::bigint as running,
           (select count(*) from (
                select from generate_series(0, 10) p, lateral (
                    select from windlass.ready r where r.queue = q.id and r.priority = p::smallint
                       and r.run_at <= n.now limit $2) r limit $2) x) as depth,
           (select count(*) from (
                select from generate_series(0, 10) p, lateral (
                    select from windlass.ready r where r.queue = q.id and r.priority = p::smallint
                       and r.run_at > n.now limit $2) r limit $2) x) as scheduled,
           (select (extract(epoch from n.now - min(r.run_at)) * 1e6)::bigint
            from generate_series(0, 10) p, lateral (
                select r.run_at from windlass.ready r where r.queue = q.id and r.priority = p::smallint
                order by r.run_at limit 1) r where r.run_at <= n.now) as oldest_us
    from n, windlass.queues q order by q.name";

const UPDATE_QUEUE: &str = "
    update windlass.queues
    set paused = coalesce($2, paused), live_concurrency = coalesce($3, live_concurrency),
        live_depth_cap = case when $4 then $5 else live_depth_cap end,
        live_depth_cap_set = live_depth_cap_set or $4
    where id = $1";

const DEPTH: &str =
    "select count(*) as depth from (select from windlass.ready where queue = $1 limit $2) waiting";

const OP: &str = "write the registry";

impl PostgresStore {
    /// In name order, so that processes starting together wait for each other in one direction.
    pub(crate) async fn sync_registry(
        &self,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
    ) -> Result<(), StoreError> {
        let mut queues: Vec<&QueueSpec> = queues.iter().collect();
        let mut kinds: Vec<&KindSpec> = kinds.iter().collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        kinds.sort_by(|a, b| a.name.cmp(&b.name));
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        for queue in queues {
            self.put_queue(&mut tx, queue, true).await?;
        }
        let mut moved = Vec::new();
        for kind in kinds {
            // A queue nobody described gets the default figures; one that is there keeps its own.
            self.put_queue(&mut tx, &QueueSpec::named(&kind.queue), false).await?;
            moved.extend(self.put_kind(&mut tx, kind).await?);
        }
        if !moved.is_empty() {
            return Err(StoreError::KindsMoved { moved });
        }
        tx.commit().await.map_err(failed(OP))?;
        self.ensure_days().await
    }

    async fn put_queue(
        &self,
        conn: &mut PgConnection,
        q: &QueueSpec,
        update: bool,
    ) -> Result<(), StoreError> {
        sqlx::query(self.sql(PUT_QUEUE))
            .bind(&q.name)
            .bind(i16::from(q.priority))
            .bind(i32::try_from(q.concurrency).unwrap_or(i32::MAX))
            .bind(micros(q.cadence))
            .bind(q.sla.map(micros))
            .bind(&q.owner)
            .bind(&q.colour)
            .bind(q.depth_cap.map(big_in))
            .bind(update)
            .execute(conn)
            .await
            .map_err(failed(OP))?;
        Ok(())
    }

    /// Answers with a kind that belongs to another queue.
    async fn put_kind(
        &self,
        conn: &mut PgConnection,
        kind: &KindSpec,
    ) -> Result<Option<KindMoved>, StoreError> {
        sqlx::query(self.sql(PUT_KIND))
            .bind(&kind.name)
            .bind(&kind.queue)
            .bind(kind.priority.map(i16::from))
            .bind(small_in(kind.max_attempts))
            .bind(kind.timeout.map(micros))
            .bind(micros(kind.backoff.base))
            .bind(micros(kind.backoff.cap))
            .bind(&kind.description)
            .execute(&mut *conn)
            .await
            .map_err(failed(OP))?;
        let row =
            sqlx::query(self.sql(KIND_HOME)).bind(&kind.name).fetch_one(conn).await.map_err(failed(OP))?;
        let stored: String = get(&row, "name")?;
        let wanted = kind.queue.clone();
        Ok((stored != wanted).then(|| KindMoved { kind: kind.name.clone(), stored, wanted }))
    }

    pub(crate) async fn kinds(&self) -> Result<Vec<(KindId, QueueId, KindSpec)>, StoreError> {
        let rows =
            sqlx::query(self.sql(KINDS)).fetch_all(&self.pool).await.map_err(failed("read the kinds"))?;
        rows.iter()
            .map(|row| {
                let spec = KindSpec {
                    name: get(row, "name")?,
                    queue: get(row, "queue_name")?,
                    priority: get::<Option<i16>>(row, "priority")?.and_then(|p| u8::try_from(p).ok()),
                    max_attempts: small(row, "max_attempts")?,
                    timeout: duration_or_none(row, "timeout_us")?,
                    backoff: Backoff {
                        base: from_micros(get(row, "backoff_base_us")?),
                        cap: from_micros(get(row, "backoff_cap_us")?),
                    },
                    description: get(row, "description")?,
                };
                Ok((KindId(get(row, "id")?), QueueId(get(row, "queue")?), spec))
            })
            .collect()
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueState>, StoreError> {
        let rows = sqlx::query(self.sql(QUEUES))
            .bind(self.offset())
            .bind(big_in(DEPTH_SHOWN))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("read the queues"))?;
        rows.iter().map(read_queue).collect()
    }

    pub(crate) async fn update_queue(
        &self,
        queue: QueueId,
        update: &QueueUpdate,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(self.sql(UPDATE_QUEUE))
            .bind(queue.0)
            .bind(update.paused)
            .bind(update.concurrency.map(|c| i32::try_from(c).unwrap_or(i32::MAX)))
            .bind(update.depth_cap.is_some())
            .bind(update.depth_cap.flatten().map(big_in))
            .execute(&self.pool)
            .await
            .map_err(failed("change a queue"))?;
        self.waker.any();
        Ok(done.rows_affected() > 0)
    }

    pub(crate) async fn depth(&self, queue: QueueId, cap: u64) -> Result<u64, StoreError> {
        let row = sqlx::query(self.sql(DEPTH))
            .bind(queue.0)
            .bind(big_in(cap))
            .fetch_one(&self.pool)
            .await
            .map_err(failed("count waiting jobs"))?;
        count(&row, "depth")
    }
}

fn read_queue(row: &PgRow) -> Result<QueueState, StoreError> {
    Ok(QueueState {
        id: QueueId(get(row, "id")?),
        spec: QueueSpec {
            name: get(row, "name")?,
            priority: priority(row, "priority")?,
            concurrency: u32::try_from(get::<i32>(row, "concurrency")?).unwrap_or(0),
            cadence: from_micros(get(row, "cadence_us")?),
            sla: duration_or_none(row, "sla_us")?,
            owner: get(row, "owner")?,
            colour: get(row, "colour")?,
            depth_cap: get::<Option<i64>>(row, "depth_cap")?.and_then(|c| u64::try_from(c).ok()),
        },
        paused: get(row, "paused")?,
        running: count(row, "running")?,
        depth: count(row, "depth")?,
        scheduled: count(row, "scheduled")?,
        oldest: duration_or_none(row, "oldest_us")?,
    })
}
