//! Queues and kinds: their configuration, operators' live values, and the depth of each queue.
//!
//! Owns `queues` and `kinds`. Configuration never overwrites a live value. Nothing here counts past [`DEPTH_SHOWN`]: a
//! long queue must not slow down its own gauge.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::limit::{KEY_CONCURRENCY, LayerChange, Layers, LimitOwner, Limited};
use windlass_core::resource::named;
use windlass_core::store::{Backlog, DEPTH_SHOWN, KindMoved, KindUpdate, QueueState, QueueUpdate};
use windlass_core::time::micros;
use windlass_core::{Backoff, KindId, KindSpec, QueueId, QueueSpec, Resource, StoreError};

use crate::PostgresStore;
use crate::error::failed;
use crate::limit::read_limits;
use crate::row::{big_in, count, duration_or_none, from_micros, get, priority, small, small_in};

/// Locks the row, whether it changes or not.
const PUT_QUEUE: &str = "
    insert into windlass.queues as q (name, priority, cadence_us, sla_us, owner, colour, resource)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (name) do update
    set priority = excluded.priority, cadence_us = excluded.cadence_us, sla_us = excluded.sla_us,
        owner = excluded.owner, colour = excluded.colour, resource = excluded.resource
    where $8 and (q.priority, q.cadence_us, q.sla_us, q.owner, q.colour, q.resource)
        is distinct from (excluded.priority, excluded.cadence_us, excluded.sla_us, excluded.owner, excluded.colour,
                          excluded.resource)";

/// A row inserted by this statement has no `xmax`; an updated one has that of its own transaction.
const PUT_KIND: &str = "
    insert into windlass.kinds as k (name, queue, priority, max_attempts, timeout_us, backoff_base_us,
                                     backoff_cap_us, description, resource, at_most_once)
    select $1, q.id, $3, $4, $5, $6, $7, $8, $9, $10 from windlass.queues q where q.name = $2
    on conflict (name) do update
    set priority = excluded.priority, max_attempts = excluded.max_attempts, timeout_us = excluded.timeout_us,
        backoff_base_us = excluded.backoff_base_us, backoff_cap_us = excluded.backoff_cap_us,
        description = excluded.description, resource = excluded.resource, at_most_once = excluded.at_most_once
    where k.queue = excluded.queue
      and (k.priority, k.max_attempts, k.timeout_us, k.backoff_base_us, k.backoff_cap_us, k.description, k.resource,
           k.at_most_once)
        is distinct from (excluded.priority, excluded.max_attempts, excluded.timeout_us, excluded.backoff_base_us,
                          excluded.backoff_cap_us, excluded.description, excluded.resource, excluded.at_most_once)
    returning k.xmax = 0 as new";

const KIND_HOME: &str = "
    select q.name from windlass.kinds k join windlass.queues q on q.id = k.queue where k.name = $1";

const KINDS: &str = "
    select k.id, k.queue, k.name, q.name as queue_name, k.priority, k.max_attempts, k.timeout_us,
           k.backoff_base_us, k.backoff_cap_us, k.description, k.at_most_once, r.name as resource,
           {kind limits}
    from windlass.kinds k join windlass.queues q on q.id = k.queue
    left join windlass.resources r on r.name = coalesce(k.resource, q.resource) order by k.name";

/// Blocked jobs have the queue's negated number.
const QUEUES: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
    select q.id, q.name, q.priority, q.cadence_us, q.sla_us, q.owner, q.colour, q.paused, r.name as resource,
           {queue limits},
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
    from n cross join windlass.queues q left join windlass.resources r on r.name = q.resource order by q.name";

const LOCK_QUEUE: &str = "select name, paused, resource from windlass.queues where id = $1 for no key update";

const PAUSE: &str = "update windlass.queues set paused = $2 where id = $1";

const LOCK_KIND: &str = "
    select k.name, coalesce(k.resource, q.resource) as resource
    from windlass.kinds k join windlass.queues q on q.id = k.queue where k.id = $1 for no key update of k";

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

const OP: &str = "write the registry";

impl PostgresStore {
    /// Queues, kinds and resources, each in name order, so that processes that start together do not deadlock.
    pub(crate) async fn do_sync_registry(
        &self,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
        actor: Option<&Actor>,
    ) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        self.put_queues(&mut tx, queues, kinds).await?;
        let resources = named(queues, kinds);
        let kinds: BTreeMap<&str, &KindSpec> = kinds.iter().map(|kind| (kind.name.as_str(), kind)).collect();
        let (mut moved, mut raised) = (Vec::new(), Vec::new());
        for kind in kinds.values() {
            match self.put_kind(&mut tx, kind).await? {
                Home::New => self.note(&mut tx, actor, NewAudit::kind_registered(kind).as_ref()).await?,
                Home::Known => {}
                Home::Elsewhere(kind) => {
                    moved.push(kind);
                    continue;
                }
            }
            let configure = |layers: &mut Layers| layers.configure(kind.limits_of(LimitOwner::Kind));
            let limits = self.change_limits(&mut tx, LimitOwner::Kind, &kind.name, configure).await?;
            if limits.is_some_and(|limits| limits.rose(KEY_CONCURRENCY)) {
                raised.push(kind.name.clone());
            }
        }
        if !moved.is_empty() {
            return Err(StoreError::KindsMoved { moved });
        }
        self.put_resources(&mut tx, &resources).await?;
        if !raised.is_empty() {
            self.check_all_lanes(&mut tx, &raised).await?;
        }
        tx.commit().await.map_err(failed(OP))?;
        self.ensure_days().await
    }

    /// A queue that only a kind names gets default values; an existing one keeps its own.
    async fn put_queues(
        &self,
        conn: &mut PgConnection,
        queues: &[QueueSpec],
        kinds: &[KindSpec],
    ) -> Result<(), StoreError> {
        let mut described: BTreeMap<&str, Option<&QueueSpec>> = BTreeMap::new();
        described.extend(kinds.iter().map(|kind| (kind.queue.as_str(), None)));
        described.extend(queues.iter().map(|queue| (queue.name.as_str(), Some(queue))));
        for (name, spec) in described {
            let queue = spec.cloned().unwrap_or_else(|| QueueSpec::named(name));
            sqlx::query(self.sql(PUT_QUEUE))
                .bind(&queue.name)
                .bind(i16::from(queue.priority))
                .bind(micros(queue.cadence))
                .bind(queue.sla.map(micros))
                .bind(&queue.owner)
                .bind(&queue.colour)
                .bind(queue.resource.as_ref().map(|resource| &resource.name))
                .bind(spec.is_some())
                .execute(&mut *conn)
                .await
                .map_err(failed(OP))?;
            let configure = |layers: &mut Layers| {
                if spec.is_some() || layers.is_new() {
                    layers.configure(queue.limits_of(LimitOwner::Queue));
                }
            };
            self.change_limits(conn, LimitOwner::Queue, name, configure).await?;
        }
        Ok(())
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
            .bind(kind.resource.as_ref().map(|resource| &resource.name))
            .bind(kind.at_most_once)
            .fetch_optional(&mut *conn)
            .await
            .map_err(failed(OP))?;
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
                let (name, queue): (String, String) = (get(row, "name")?, get(row, "queue_name")?);
                let mut spec = KindSpec {
                    priority: get::<Option<i16>>(row, "priority")?.and_then(|p| u8::try_from(p).ok()),
                    max_attempts: small(row, "max_attempts")?,
                    timeout: duration_or_none(row, "timeout_us")?,
                    backoff: Backoff {
                        base: from_micros(get(row, "backoff_base_us")?),
                        cap: from_micros(get(row, "backoff_cap_us")?),
                    },
                    resource: resource(row)?,
                    at_most_once: get(row, "at_most_once")?,
                    description: get(row, "description")?,
                    ..KindSpec::new(&name, &queue)
                };
                read_limits(row, &mut spec)?;
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
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let row = sqlx::query(self.sql(LOCK_QUEUE)).bind(queue.0).fetch_optional(&mut *tx).await;
        let Some(row) = row.map_err(failed(OP))? else { return Ok(false) };
        let (name, paused): (String, bool) = (get(&row, "name")?, get(&row, "paused")?);
        let pause = update.paused.unwrap_or(paused);
        if pause != paused {
            let change = sqlx::query(self.sql(PAUSE)).bind(queue.0).bind(pause);
            change.execute(&mut *tx).await.map_err(failed(OP))?;
        }
        let moved = self.set_limits::<QueueSpec>(&mut tx, LimitOwner::Queue, &row, update).await?;
        let note = NewAudit::queue_changed(&name, [paused, pause], &moved);
        self.note(&mut tx, update.actor.as_ref(), note.as_ref()).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.waker.any();
        Ok(true)
    }

    pub(crate) async fn do_update_kind(&self, kind: KindId, update: &KindUpdate) -> Result<bool, StoreError> {
        const OP: &str = "change a kind";
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let row = sqlx::query(self.sql(LOCK_KIND)).bind(kind.0).fetch_optional(&mut *tx).await;
        let Some(row) = row.map_err(failed(OP))? else { return Ok(false) };
        let name: String = get(&row, "name")?;
        let moved = self.set_limits::<KindSpec>(&mut tx, LimitOwner::Kind, &row, update).await?;
        if moved.iter().any(|moved| moved.rose(KEY_CONCURRENCY)) {
            self.check_all_lanes(&mut tx, std::slice::from_ref(&name)).await?;
        }
        self.note(&mut tx, update.actor.as_ref(), NewAudit::kind_changed(&name, &moved).as_ref()).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.waker.any();
        Ok(true)
    }

    /// Sets the limits of a locked queue or kind, and of the resource that it names.
    async fn set_limits<S: Limited>(
        &self,
        conn: &mut PgConnection,
        of: LimitOwner,
        row: &PgRow,
        update: &S::Update,
    ) -> Result<Vec<LayerChange>, StoreError> {
        let mut moved = Vec::new();
        for (of, name) in [(of, Some(get(row, "name")?)), (LimitOwner::Resource, get(row, "resource")?)] {
            let (Some(name), changes): (Option<String>, _) = (name, S::changes(update, of)) else { continue };
            if !changes.is_empty() {
                moved.extend(self.change_limits(conn, of, &name, |layers| layers.set(&changes)).await?);
            }
        }
        Ok(moved)
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

/// Where a kind was registered before.
enum Home {
    New,
    Known,
    /// It belongs to another queue and stays there.
    Elsewhere(KindMoved),
}

fn resource(row: &PgRow) -> Result<Option<Resource>, StoreError> {
    Ok(get::<Option<String>>(row, "resource")?.map(|name| Resource { name, permits: None }))
}

fn read_queue(row: &PgRow) -> Result<QueueState, StoreError> {
    let mut spec = QueueSpec {
        priority: priority(row, "priority")?,
        cadence: from_micros(get(row, "cadence_us")?),
        sla: duration_or_none(row, "sla_us")?,
        owner: get(row, "owner")?,
        colour: get(row, "colour")?,
        resource: resource(row)?,
        ..QueueSpec::named(&get::<String>(row, "name")?)
    };
    read_limits(row, &mut spec)?;
    Ok(QueueState {
        id: QueueId(get(row, "id")?),
        spec,
        paused: get(row, "paused")?,
        running: count(row, "running")?,
        depth: count(row, "depth")?,
        scheduled: count(row, "scheduled")?,
        oldest: duration_or_none(row, "oldest_us")?,
    })
}
