//! Queues and kinds as rows, so that several versions of an application can run at once.
//!
//! Owns: both registry tables, except for the limit columns. Never counts a large table: depths stop at a cap.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::limit::{KEY_CONCURRENCY, LayerChange, Layers, LimitOwner, Limited};
use windlass_core::queue::MAX_PRIORITY;
use windlass_core::resource::named;
use windlass_core::store::{
    Backlog, DEPTH_SHOWN, KindLimits, KindMoved, KindUpdate, Permits, QueueState, QueueUpdate, Wake,
};
use windlass_core::time::micros;
use windlass_core::{Backoff, KindId, KindSpec, QueueId, QueueSpec, Resource, StoreError, Time};

use crate::error::{Answer, other};
use crate::lane::{check_all, stored_queue};
use crate::limit::{columns, rate, read_limits};
use crate::row::duration;
use crate::scope::Scope;
use crate::{audit, limit, resource};

pub(crate) fn sync_registry(
    scope: &mut Scope<'_>,
    queues: &[QueueSpec],
    kinds: &[KindSpec],
    actor: Option<&Actor>,
) -> Answer<()> {
    for queue in queues {
        put_queue(scope.connection, queue)?;
    }
    let mut moved = Vec::new();
    for kind in kinds {
        match put_kind(scope.connection, kind)? {
            Home::New => audit::note(scope, actor, NewAudit::kind_registered(kind).as_ref())?,
            Home::Known => {}
            Home::Elsewhere(kind) => {
                moved.push(kind);
                continue;
            }
        }
        let configure = |layers: &mut Layers| layers.configure(kind.limits_of(LimitOwner::Kind));
        let limits = limit::change(scope.connection, LimitOwner::Kind, &kind.name, configure)?;
        if limits.is_some_and(|limits| limits.rose(KEY_CONCURRENCY)) {
            check_all(scope, id(scope.connection, &kind.name)?)?;
        }
    }
    if !moved.is_empty() {
        return Err(StoreError::KindsMoved { moved }.into());
    }
    resource::put(scope.connection, &named(queues, kinds))?;
    scope.wake(Wake::Any);
    Ok(())
}

/// Where a kind was registered before.
enum Home {
    New,
    Known,
    /// It belongs to another queue and stays there.
    Elsewhere(KindMoved),
}

fn put_queue(connection: &Connection, queue: &QueueSpec) -> Answer<()> {
    connection
        .prepare_cached(
            "insert into windlass_queues (name, priority, cadence_us, sla_us, owner, colour, resource)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             on conflict (name) do update set priority = excluded.priority, cadence_us = excluded.cadence_us,
                 sla_us = excluded.sla_us, owner = excluded.owner, colour = excluded.colour,
                 resource = excluded.resource",
        )?
        .execute((
            &queue.name,
            queue.priority,
            micros(queue.cadence),
            queue.sla.map(micros),
            &queue.owner,
            &queue.colour,
            queue.resource.as_ref().map(|resource| &resource.name),
        ))?;
    let configure = |layers: &mut Layers| layers.configure(queue.limits_of(LimitOwner::Queue));
    limit::change(connection, LimitOwner::Queue, &queue.name, configure)?;
    Ok(())
}

fn put_kind(connection: &Connection, kind: &KindSpec) -> Answer<Home> {
    let queue = connection
        .prepare_cached("select id from windlass_queues where name = ?1")?
        .query_row([&kind.queue], |row| row.get::<_, i32>(0))
        .optional()?;
    let Some(queue) = queue else {
        let why = format!("kind `{}` names the queue `{}`, which is not registered", kind.name, kind.queue);
        return Err(other("register kinds", why).into());
    };
    let stored = connection
        .prepare_cached(
            "select q.id, q.name from windlass_kinds k join windlass_queues q on q.id = k.queue where k.name = ?1",
        )?
        .query_row([&kind.name], |row| Ok((row.get::<_, i32>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let home = match stored {
        None => Home::New,
        Some((id, _)) if id == queue => Home::Known,
        Some((_, stored)) => {
            let (kind, wanted) = (kind.name.clone(), kind.queue.clone());
            return Ok(Home::Elsewhere(KindMoved { kind, stored, wanted }));
        }
    };
    connection
        .prepare_cached(
            "insert into windlass_kinds (name, queue, priority, max_attempts, timeout_us, backoff_base_us,
                 backoff_cap_us, description, resource, at_most_once)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             on conflict (name) do update set priority = excluded.priority, max_attempts = excluded.max_attempts,
                 timeout_us = excluded.timeout_us, backoff_base_us = excluded.backoff_base_us,
                 backoff_cap_us = excluded.backoff_cap_us, description = excluded.description,
                 resource = excluded.resource, at_most_once = excluded.at_most_once",
        )?
        .execute((
            &kind.name,
            queue,
            kind.priority,
            kind.max_attempts,
            kind.timeout.map(micros),
            micros(kind.backoff.base),
            micros(kind.backoff.cap),
            &kind.description,
            kind.resource.as_ref().map(|resource| &resource.name),
            kind.at_most_once,
        ))?;
    Ok(home)
}

fn id(connection: &Connection, kind: &str) -> Answer<KindId> {
    let mut statement = connection.prepare_cached("select id from windlass_kinds where name = ?1")?;
    Ok(KindId(statement.query_row([kind], |row| row.get(0))?))
}

pub(crate) fn kinds(connection: &Connection) -> Answer<Vec<(KindId, QueueId, KindSpec)>> {
    let mut statement = connection.prepare_cached(&format!(
        "select k.id, k.queue, k.name, q.name as queue_name, k.priority, k.max_attempts, k.timeout_us,
                k.backoff_base_us, k.backoff_cap_us, k.description, k.at_most_once, r.name as resource, {}
         from windlass_kinds k join windlass_queues q on q.id = k.queue
         left join windlass_resources r on r.name = coalesce(k.resource, q.resource) order by k.id",
        columns::<KindSpec>()
    ))?;
    let mut rows = statement.query([])?;
    let mut kinds = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, queue): (String, String) = (row.get("name")?, row.get("queue_name")?);
        let mut spec = KindSpec {
            priority: row.get("priority")?,
            max_attempts: row.get("max_attempts")?,
            timeout: row.get::<_, Option<i64>>("timeout_us")?.map(duration),
            backoff: Backoff {
                base: duration(row.get("backoff_base_us")?),
                cap: duration(row.get("backoff_cap_us")?),
            },
            resource: resource_in(row)?,
            at_most_once: row.get("at_most_once")?,
            description: row.get("description")?,
            ..KindSpec::new(&name, &queue)
        };
        read_limits(row, &mut spec)?;
        kinds.push((KindId(row.get("id")?), QueueId(row.get("queue")?), spec));
    }
    Ok(kinds)
}

fn resource_in(row: &Row<'_>) -> rusqlite::Result<Option<Resource>> {
    Ok(row.get::<_, Option<String>>("resource")?.map(|name| Resource { name, permits: None }))
}

/// The limits of those of these kinds that have any.
pub(crate) fn kind_limits(connection: &Connection, kinds: &[KindId]) -> Answer<Vec<KindLimits>> {
    let mut statement = connection.prepare_cached(
        "select k.id, k.rate, r.name, r.permits
         from windlass_kinds k join windlass_queues q on q.id = k.queue
         left join windlass_resources r on r.name = coalesce(k.resource, q.resource)
         where k.rate is not null or r.name is not null order by k.id",
    )?;
    let mut rows = statement.query([])?;
    let mut limits = Vec::new();
    while let Some(row) = rows.next()? {
        let permits = row.get::<_, Option<u32>>(3)?;
        let resource = row.get::<_, Option<String>>(2)?.zip(permits);
        let resource = resource.map(|(resource, permits)| Permits { resource, permits });
        limits.push(KindLimits { kind: KindId(row.get(0)?), rate: rate(row, 1)?, resource });
    }
    limits.retain(|of| kinds.contains(&of.kind) && (of.rate.is_some() || of.resource.is_some()));
    Ok(limits)
}

pub(crate) fn queues(connection: &Connection, now: Time) -> Answer<Vec<QueueState>> {
    let mut statement = connection.prepare_cached(&format!(
        "select q.id, q.name, q.priority, q.cadence_us, q.sla_us, q.owner, q.colour, q.paused, r.name as resource, {},
                (select coalesce(sum(json_array_length(c.ids)), 0) from windlass_claims c where c.queue = q.id)
                    as running
         from windlass_queues q left join windlass_resources r on r.name = q.resource order by q.id",
        columns::<QueueSpec>()
    ))?;
    let mut rows = statement.query([])?;
    let mut queues = Vec::new();
    while let Some(row) = rows.next()? {
        let mut spec = QueueSpec {
            priority: row.get("priority")?,
            cadence: duration(row.get("cadence_us")?),
            sla: row.get::<_, Option<i64>>("sla_us")?.map(duration),
            owner: row.get("owner")?,
            colour: row.get("colour")?,
            resource: resource_in(row)?,
            ..QueueSpec::named(&row.get::<_, String>("name")?)
        };
        read_limits(row, &mut spec)?;
        let mut queue = QueueState {
            id: QueueId(row.get("id")?),
            spec,
            paused: row.get("paused")?,
            running: row.get::<_, i64>("running")?.unsigned_abs(),
            depth: 0,
            scheduled: 0,
            oldest: None,
        };
        fill_depths(connection, &mut queue, now)?;
        queues.push(queue);
    }
    Ok(queues)
}

/// One index range per priority, for blocked jobs too, so that jobs due later are never scanned to count the due
/// ones.
fn fill_depths(connection: &Connection, queue: &mut QueueState, now: Time) -> Answer<()> {
    let mut due = connection.prepare_cached(
        "select count(*), min(run_at) from (select run_at from windlass_ready
         where queue = ?1 and priority = ?2 and run_at <= ?3 order by run_at limit ?4)",
    )?;
    let mut ahead = connection.prepare_cached(
        "select count(*) from (select 1 from windlass_ready
         where queue = ?1 and priority = ?2 and run_at > ?3 limit ?4)",
    )?;
    let standings = [false, true].map(|blocked| stored_queue(queue.id.0, blocked));
    for (number, priority) in
        standings.into_iter().flat_map(|number| (0..=MAX_PRIORITY).map(move |p| (number, p)))
    {
        // Reads at least one row even at the cap: the oldest job may have any priority.
        let room = DEPTH_SHOWN.saturating_sub(queue.depth).max(1);
        let (count, oldest) = due.query_row((number, priority, now.0, room.cast_signed()), |row| {
            Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, Option<i64>>(1)?))
        })?;
        queue.depth = (queue.depth + count).min(DEPTH_SHOWN);
        let oldest: Option<Duration> = oldest.map(|at| now.since(Time(at)));
        queue.oldest = queue.oldest.max(oldest);
        let room = DEPTH_SHOWN.saturating_sub(queue.scheduled);
        queue.scheduled += ahead
            .query_row((number, priority, now.0, room.cast_signed()), |row| row.get::<_, i64>(0))?
            .unsigned_abs();
    }
    Ok(())
}

pub(crate) fn update_queue(scope: &mut Scope<'_>, queue: QueueId, update: &QueueUpdate) -> Answer<bool> {
    let connection = scope.connection;
    let found = connection
        .prepare_cached("select name, paused, resource from windlass_queues where id = ?1")?
        .query_row([queue.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((name, paused, resource)): Option<(String, bool, Option<String>)> = found else {
        return Ok(false);
    };
    let pause = update.paused.unwrap_or(paused);
    connection
        .prepare_cached("update windlass_queues set paused = ?2 where id = ?1 and paused <> ?2")?
        .execute((queue.0, pause))?;
    let rows = [(LimitOwner::Queue, Some(&name)), (LimitOwner::Resource, resource.as_ref())];
    let moved = set_limits::<QueueSpec>(connection, rows, update)?;
    let note = NewAudit::queue_changed(&name, [paused, pause], &moved);
    audit::note(scope, update.actor.as_ref(), note.as_ref())?;
    scope.wake(Wake::Any);
    Ok(true)
}

pub(crate) fn update_kind(scope: &mut Scope<'_>, kind: KindId, update: &KindUpdate) -> Answer<bool> {
    let connection = scope.connection;
    let found = connection
        .prepare_cached(
            "select k.name, coalesce(k.resource, q.resource)
             from windlass_kinds k join windlass_queues q on q.id = k.queue where k.id = ?1",
        )?
        .query_row([kind.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((name, resource)): Option<(String, Option<String>)> = found else { return Ok(false) };
    let rows = [(LimitOwner::Kind, Some(&name)), (LimitOwner::Resource, resource.as_ref())];
    let moved = set_limits::<KindSpec>(connection, rows, update)?;
    if moved.iter().any(|moved| moved.rose(KEY_CONCURRENCY)) {
        check_all(scope, kind)?;
    }
    audit::note(scope, update.actor.as_ref(), NewAudit::kind_changed(&name, &moved).as_ref())?;
    scope.wake(Wake::Any);
    Ok(true)
}

/// Sets the limits of a queue or kind, and of the resource that it names.
fn set_limits<S: Limited>(
    connection: &Connection,
    rows: [(LimitOwner, Option<&String>); 2],
    update: &S::Update,
) -> Answer<Vec<LayerChange>> {
    let mut moved = Vec::new();
    for (of, name) in rows {
        let (Some(name), changes) = (name, S::changes(update, of)) else { continue };
        moved.extend(limit::change(connection, of, name, |layers| layers.set(&changes))?);
    }
    Ok(moved)
}

pub(crate) fn backlog(connection: &Connection, queue: QueueId, cap: u64, now: Time) -> Answer<Backlog> {
    let mut statement = connection.prepare_cached(
        "select count(*) from (select 1 from windlass_ready
         where queue = ?1 and priority = ?2 and run_at <= ?3 limit ?4)",
    )?;
    let mut due = 0;
    for priority in 0..=MAX_PRIORITY {
        let room = i64::try_from(cap - due).unwrap_or(i64::MAX);
        let count: i64 = statement.query_row((queue.0, priority, now.0, room), |row| row.get(0))?;
        due += count.unsigned_abs();
    }
    let workers: i64 = connection
        .prepare_cached(
            "select count(*) from windlass_workers w
             where exists (select 1 from json_each(w.queues) e where e.value = ?1)",
        )?
        .query_row([queue.0], |row| row.get(0))?;
    Ok(Backlog { due, workers: workers.unsigned_abs() })
}

pub(crate) fn depth(connection: &Connection, queue: QueueId, cap: u64) -> Answer<u64> {
    let cap = i64::try_from(cap).unwrap_or(i64::MAX);
    let mut statement = connection
        .prepare_cached("select count(*) from (select 1 from windlass_ready where queue = ?1 limit ?2)")?;
    let mut count = 0;
    for blocked in [false, true] {
        let left = cap.saturating_sub(count);
        count += statement.query_row((stored_queue(queue.0, blocked), left), |row| row.get::<_, i64>(0))?;
    }
    Ok(count.unsigned_abs())
}
