//! Queues and kinds: what is configured, what an operator changed live, and how full each queue is.
//!
//! Owns `queues` and `kinds`. Configuration never overwrites a live setting. No figure here counts past
//! [`DEPTH_SHOWN`]: a full queue must not make its own gauge slow.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::audit::{Actor, Note};
use windlass_core::queue::boost_code;
use windlass_core::scale::Bounds;
use windlass_core::store::{Backlog, DEPTH_SHOWN, KindMoved, KindUpdate, Live, QueueState, QueueUpdate};
use windlass_core::time::micros;
use windlass_core::{Backoff, KindId, KindSpec, QueueId, QueueSpec, Rate, Resource, StoreError};

use crate::PostgresStore;
use crate::audit::Subject;
use crate::error::failed;
use crate::in_force::in_force;
use crate::row::{big_in, count, duration_or_none, from_micros, get, most, priority, small, small_in};

const PUT_QUEUE: &str = "
    insert into windlass.queues as q (name, priority, concurrency, cadence_us, sla_us, owner, colour, depth_cap,
                                      concurrency_min, concurrency_max, resource, global_concurrency, boost_after_us)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $10, $11, $12, $13, $14)
    on conflict (name) do update
    set priority = excluded.priority, concurrency = excluded.concurrency, cadence_us = excluded.cadence_us,
        sla_us = excluded.sla_us, owner = excluded.owner, colour = excluded.colour, depth_cap = excluded.depth_cap,
        concurrency_min = excluded.concurrency_min, concurrency_max = excluded.concurrency_max,
        resource = excluded.resource, global_concurrency = excluded.global_concurrency,
        boost_after_us = excluded.boost_after_us
    where $9 and (q.priority, q.concurrency, q.cadence_us, q.sla_us, q.owner, q.colour, q.depth_cap,
                  q.concurrency_min, q.concurrency_max, q.resource, q.global_concurrency, q.boost_after_us)
        is distinct from (excluded.priority, excluded.concurrency, excluded.cadence_us, excluded.sla_us,
                          excluded.owner, excluded.colour, excluded.depth_cap, excluded.concurrency_min,
                          excluded.concurrency_max, excluded.resource, excluded.global_concurrency,
                          excluded.boost_after_us)";

/// A row that this statement made has no `xmax`; one that it changed has its own transaction's.
const PUT_KIND: &str = "
    insert into windlass.kinds as k (name, queue, priority, max_attempts, timeout_us, backoff_base_us,
                                     backoff_cap_us, description, key_concurrency, configured_key_concurrency,
                                     rate, resource)
    select $1, q.id, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11 from windlass.queues q where q.name = $2
    on conflict (name) do update
    set priority = excluded.priority, max_attempts = excluded.max_attempts, timeout_us = excluded.timeout_us,
        backoff_base_us = excluded.backoff_base_us, backoff_cap_us = excluded.backoff_cap_us,
        description = excluded.description, rate = excluded.rate, resource = excluded.resource,
        configured_key_concurrency = excluded.key_concurrency,
        key_concurrency = coalesce(k.live_key_concurrency, excluded.key_concurrency)
    where k.queue = excluded.queue
      and (k.priority, k.max_attempts, k.timeout_us, k.backoff_base_us, k.backoff_cap_us, k.description,
           k.configured_key_concurrency, k.rate, k.resource)
        is distinct from (excluded.priority, excluded.max_attempts, excluded.timeout_us, excluded.backoff_base_us,
                          excluded.backoff_cap_us, excluded.description, excluded.key_concurrency, excluded.rate,
                          excluded.resource)
    returning k.xmax = 0 as new";

const KEY_CONCURRENCIES: &str = "
    select name, key_concurrency from windlass.kinds where name = any ($1) and live_key_concurrency is null";

const KIND_HOME: &str = "
    select q.name from windlass.kinds k join windlass.queues q on q.id = k.queue where k.name = $1";

const KINDS: &str = "
    select k.id, k.queue, k.name, q.name as queue_name, k.priority, k.max_attempts, k.timeout_us,
           k.backoff_base_us, k.backoff_cap_us, k.description, k.key_concurrency,
           coalesce(k.live_rate, k.rate) as rate, r.name as resource, coalesce(r.live_permits, r.permits) as permits
    from windlass.kinds k join windlass.queues q on q.id = k.queue
    left join windlass.resources r on r.name = coalesce(k.resource, q.resource) order by k.name";

/// Those in line stand under the queue's negative number.
const QUEUES: &str = concat!(
"
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
    select q.id, q.name, q.priority, ",
in_force!(concurrency),
" as concurrency, q.cadence_us,
           q.sla_us, q.owner, q.colour, q.paused,
           ",
in_force!(concurrency_min),
" as concurrency_min,
           ",
in_force!(concurrency_max),
" as concurrency_max, r.name as resource,
           coalesce(r.live_permits, r.permits) as permits,
           ",
in_force!(depth_cap),
" as depth_cap,
           ",
in_force!(global_concurrency),
"
               as global_concurrency,
           ",
in_force!(boost_after_us),
" as boost_after_us,
           coalesce((select sum(cardinality(c.ids)) from windlass.claims c where c.queue = q.id), 0)::bigint as running,
           (select count(*) from (
                select from unnest(array[q.id, -q.id]) s (queue), generate_series(0, 10) p, lateral (
                    select from windlass.ready r where r.queue = s.queue and r.priority = p::smallint
                       and r.run_at <= n.now limit $2) r limit $2) x) as depth,
           (select count(*) from (
                select from unnest(array[q.id, -q.id]) s (queue), generate_series(0, 10) p, lateral (
                    select from windlass.ready r where r.queue = s.queue and r.priority = p::smallint
                       and r.run_at > n.now limit $2) r limit $2) x) as scheduled,
           (select (extract(epoch from n.now - min(r.run_at)) * 1e6)::bigint
            from unnest(array[q.id, -q.id]) s (queue), generate_series(0, 10) p, lateral (
                select r.run_at from windlass.ready r where r.queue = s.queue and r.priority = p::smallint
                order by r.run_at limit 1) r where r.run_at <= n.now) as oldest_us
    from n cross join windlass.queues q left join windlass.resources r on r.name = q.resource order by q.name"
);

const UPDATE_QUEUE: &str = "
    update windlass.queues
    set paused = coalesce($2, paused),
        live_concurrency = case when $3 then $4 else live_concurrency end,
        live_concurrency_min = case when $5 then $7 else live_concurrency_min end,
        live_concurrency_max = case when $6 then coalesce($4, live_concurrency, concurrency)
                                    when $5 then $8 else live_concurrency_max end,
        live_depth_cap = case when $9 then $11 else live_depth_cap end,
        live_depth_cap_set = case when $9 then $10 else live_depth_cap_set end,
        live_global_concurrency = case when $12 then $14 else live_global_concurrency end,
        live_global_concurrency_set = case when $12 then $13 else live_global_concurrency_set end,
        live_boost_after_us = case when $15 then $16 else live_boost_after_us end
    where id = $1
    returning resource";

const UPDATE_KIND: &str = "
    update windlass.kinds k
    set live_rate = case when $2 then $3 else k.live_rate end,
        live_key_concurrency = case when $4 then $5 else k.live_key_concurrency end,
        key_concurrency = case when $4 then coalesce($5, k.configured_key_concurrency) else k.key_concurrency end
    from windlass.queues q where k.id = $1 and q.id = k.queue
    returning coalesce(k.resource, q.resource) as resource, k.name";

const SET_PERMITS: &str = "update windlass.resources set live_permits = $2 where name = $1";

const BACKLOG: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
    select (select count(*) from (
                select from n, generate_series(0, 10) p, lateral (
                    select from windlass.ready r where r.queue = $2 and r.priority = p::smallint
                       and r.run_at <= n.now limit $3) r limit $3) x) as due,
           (select count(*) from windlass.workers w where $2 = any (w.queues)) as workers";

const DEPTH: &str = "
    select count(*) as depth from (
        select from unnest(array[$1::int, -$1::int]) s (queue), lateral (
            select from windlass.ready r where r.queue = s.queue limit $2) r limit $2) waiting";

/// Stands for a lifted bound.
const NO_RATE: &str = "none";

const OP: &str = "write the registry";

impl PostgresStore {
    /// In name order, so that processes starting together wait for each other in one direction.
    pub(crate) async fn do_sync_registry(
        &self,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
        actor: Option<&Actor>,
    ) -> Result<(), StoreError> {
        let mut queues: Vec<&QueueSpec> = queues.iter().collect();
        let mut kinds: Vec<&KindSpec> = kinds.iter().collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        kinds.sort_by(|a, b| a.name.cmp(&b.name));
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        for queue in queues {
            self.put_queue(&mut tx, queue, true).await?;
        }
        let raised = self.raised(&mut tx, &kinds).await?;
        let mut moved = Vec::new();
        for kind in kinds {
            // A queue nobody described gets the default figures; one that is there keeps its own.
            self.put_queue(&mut tx, &QueueSpec::named(&kind.queue), false).await?;
            match self.put_kind(&mut tx, kind).await? {
                Home::New => self.note(&mut tx, actor, Note::kind_registered(kind).as_ref()).await?,
                Home::Known => {}
                Home::Elsewhere(kind) => moved.push(kind),
            }
        }
        if !moved.is_empty() {
            return Err(StoreError::KindsMoved { moved });
        }
        if !raised.is_empty() {
            self.check_all_lanes(&mut tx, &raised).await?;
        }
        tx.commit().await.map_err(failed(OP))?;
        self.ensure_days().await
    }

    /// Kinds whose lanes get more room than they have.
    async fn raised(&self, conn: &mut PgConnection, kinds: &[&KindSpec]) -> Result<Vec<String>, StoreError> {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        let query = sqlx::query(self.sql(KEY_CONCURRENCIES)).bind(names);
        let rows = query.fetch_all(conn).await.map_err(failed(OP))?;
        let mut raised = Vec::new();
        for row in &rows {
            let (name, before): (String, u16) = (get(row, "name")?, small(row, "key_concurrency")?);
            if kinds.iter().any(|kind| kind.name == name && kind.key_concurrency > before) {
                raised.push(name);
            }
        }
        Ok(raised)
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
            .bind(whole(q.concurrency))
            .bind(micros(q.cadence))
            .bind(q.sla.map(micros))
            .bind(&q.owner)
            .bind(&q.colour)
            .bind(q.depth_cap.map(big_in))
            .bind(update)
            .bind(q.bounds.map(|bounds| whole(bounds.min)))
            .bind(q.bounds.map(|bounds| whole(bounds.max)))
            .bind(q.resource.as_ref().map(|resource| &resource.name))
            .bind(q.global_concurrency.map(whole))
            .bind(q.boost_after.map(micros))
            .execute(&mut *conn)
            .await
            .map_err(failed(OP))?;
        self.put_resource(conn, q.resource.as_ref()).await
    }

    async fn put_kind(&self, conn: &mut PgConnection, kind: &KindSpec) -> Result<Home, StoreError> {
        let written = sqlx::query(self.sql(PUT_KIND))
            .bind(&kind.name)
            .bind(&kind.queue)
            .bind(kind.priority.map(i16::from))
            .bind(small_in(kind.max_attempts))
            .bind(kind.timeout.map(micros))
            .bind(micros(kind.backoff.base))
            .bind(micros(kind.backoff.cap))
            .bind(&kind.description)
            .bind(small_in(kind.key_concurrency))
            .bind(kind.rate.map(|rate| rate.to_string()))
            .bind(kind.resource.as_ref().map(|resource| &resource.name))
            .fetch_optional(&mut *conn)
            .await
            .map_err(failed(OP))?;
        self.put_resource(conn, kind.resource.as_ref()).await?;
        let new = written.as_ref().map(|row| get::<bool>(row, "new")).transpose()?;
        if new == Some(true) {
            return Ok(Home::New);
        }
        let row =
            sqlx::query(self.sql(KIND_HOME)).bind(&kind.name).fetch_one(conn).await.map_err(failed(OP))?;
        let stored: String = get(&row, "name")?;
        let wanted = kind.queue.clone();
        Ok(match stored == wanted {
            true => Home::Known,
            false => Home::Elsewhere(KindMoved { kind: kind.name.clone(), stored, wanted }),
        })
    }

    pub(crate) async fn do_kinds(&self) -> Result<Vec<(KindId, QueueId, KindSpec)>, StoreError> {
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
                    key_concurrency: small(row, "key_concurrency")?,
                    rate: rate(row)?,
                    resource: resource(row)?,
                    description: get(row, "description")?,
                };
                Ok((KindId(get(row, "id")?), QueueId(get(row, "queue")?), spec))
            })
            .collect()
    }

    pub(crate) async fn do_queues(&self) -> Result<Vec<QueueState>, StoreError> {
        let rows = sqlx::query(self.sql(QUEUES))
            .bind(self.offset())
            .bind(big_in(DEPTH_SHOWN))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("read the queues"))?;
        rows.iter().map(read_queue).collect()
    }

    pub(crate) async fn do_update_queue(
        &self,
        queue: QueueId,
        update: &QueueUpdate,
    ) -> Result<bool, StoreError> {
        const OP: &str = "change a queue";
        let bounds = update.bounds.and_then(Live::set);
        let depth_cap = update.depth_cap.and_then(Live::set);
        let global_concurrency = update.global_concurrency.and_then(Live::set);
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let watched = self.watch(&mut tx, Subject::Queue(queue), update.actor.as_ref()).await?;
        let changed = sqlx::query(self.sql(UPDATE_QUEUE))
            .bind(queue.0)
            .bind(update.paused)
            .bind(update.concurrency.is_some())
            .bind(update.concurrency.and_then(Live::set).map(whole))
            .bind(update.bounds.is_some())
            .bind(bounds == Some(None))
            .bind(bounds.flatten().map(|bounds| whole(bounds.min)))
            .bind(bounds.flatten().map(|bounds| whole(bounds.max)))
            .bind(update.depth_cap.is_some())
            .bind(depth_cap.is_some())
            .bind(depth_cap.flatten().map(big_in))
            .bind(update.global_concurrency.is_some())
            .bind(global_concurrency.is_some())
            .bind(global_concurrency.flatten().map(whole))
            .bind(update.boost_after.is_some())
            .bind(update.boost_after.and_then(boost_code))
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed(OP))?;
        self.set_permits(&mut tx, changed.as_ref(), update.permits).await?;
        self.note_watched(&mut tx, watched).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.waker.any();
        Ok(changed.is_some())
    }

    pub(crate) async fn do_update_kind(&self, kind: KindId, update: &KindUpdate) -> Result<bool, StoreError> {
        const OP: &str = "change a kind";
        let rate = update.rate.and_then(Live::set);
        let rate = rate.map(|rate| rate.map_or(NO_RATE.to_owned(), |rate| rate.to_string()));
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let watched = self.watch(&mut tx, Subject::Kind(kind), update.actor.as_ref()).await?;
        let changed = sqlx::query(self.sql(UPDATE_KIND))
            .bind(kind.0)
            .bind(update.rate.is_some())
            .bind(rate)
            .bind(update.key_concurrency.is_some())
            .bind(update.key_concurrency.and_then(Live::set).map(small_in))
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed(OP))?;
        if let (Some(row), Some(_)) = (&changed, update.key_concurrency) {
            self.check_all_lanes(&mut tx, &[get(row, "name")?]).await?;
        }
        self.set_permits(&mut tx, changed.as_ref(), update.permits).await?;
        self.note_watched(&mut tx, watched).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.waker.any();
        Ok(changed.is_some())
    }

    /// Of the resource that a changed queue or kind names, if it names one.
    async fn set_permits(
        &self,
        conn: &mut PgConnection,
        changed: Option<&PgRow>,
        permits: Option<Live<u32>>,
    ) -> Result<(), StoreError> {
        let (Some(changed), Some(permits)) = (changed, permits) else { return Ok(()) };
        let Some(resource) = get::<Option<String>>(changed, "resource")? else { return Ok(()) };
        let set = sqlx::query(self.sql(SET_PERMITS)).bind(resource).bind(permits.set().map(whole));
        set.execute(conn).await.map_err(failed("set permits"))?;
        Ok(())
    }

    pub(crate) async fn do_backlog(&self, queue: QueueId, cap: u64) -> Result<Backlog, StoreError> {
        let row = sqlx::query(self.sql(BACKLOG))
            .bind(self.offset())
            .bind(queue.0)
            .bind(big_in(cap))
            .fetch_one(&self.pool)
            .await
            .map_err(failed("count due jobs"))?;
        Ok(Backlog { due: count(&row, "due")?, workers: count(&row, "workers")? })
    }

    pub(crate) async fn do_depth(&self, queue: QueueId, cap: u64) -> Result<u64, StoreError> {
        let row = sqlx::query(self.sql(DEPTH))
            .bind(queue.0)
            .bind(big_in(cap))
            .fetch_one(&self.pool)
            .await
            .map_err(failed("count waiting jobs"))?;
        count(&row, "depth")
    }
}

/// Where a kind was found.
enum Home {
    New,
    Known,
    /// It belongs to another queue, and stays there.
    Elsewhere(KindMoved),
}

fn whole(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The column `rate`, as it is written; `none` is an operator's word for no bound.
pub(crate) fn rate(row: &PgRow) -> Result<Option<Rate>, StoreError> {
    parse_rate(get(row, "rate")?)
}

pub(crate) fn parse_rate(text: Option<String>) -> Result<Option<Rate>, StoreError> {
    let text = text.filter(|text| text != NO_RATE);
    let read = text.map(|text| text.parse::<Rate>()).transpose();
    read.map_err(|error| StoreError::Corrupt { what: error.to_string() })
}

fn resource(row: &PgRow) -> Result<Option<Resource>, StoreError> {
    let permits = get::<Option<i32>>(row, "permits")?.and_then(|permits| u32::try_from(permits).ok());
    Ok(get::<Option<String>>(row, "resource")?.map(|name| Resource { name, permits }))
}

/// An upper bound alone is an operator's word for none: an older process takes it for a bound, which it may.
pub(crate) fn bounds(row: &PgRow) -> Result<Option<Bounds>, StoreError> {
    let read =
        |name| get::<Option<i32>>(row, name).map(|count| count.and_then(|count| u32::try_from(count).ok()));
    let (min, max) = (read("concurrency_min")?, read("concurrency_max")?);
    Ok(min.zip(max).map(|(min, max)| Bounds { min, max }))
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
            global_concurrency: most(row, "global_concurrency")?,
            bounds: bounds(row)?,
            resource: resource(row)?,
            boost_after: duration_or_none(row, "boost_after_us")?,
        },
        paused: get(row, "paused")?,
        running: count(row, "running")?,
        depth: count(row, "depth")?,
        scheduled: count(row, "scheduled")?,
        oldest: duration_or_none(row, "oldest_us")?,
    })
}
