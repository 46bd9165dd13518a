//! Queues and kinds as rows, so that several versions of an application may run side by side.
//!
//! Owns: both registry tables. What an operator set live is kept apart from configuration and wins. Never counts a
//! big table: depths stop at a cap.

use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, named_params};
use windlass_core::audit::{Actor, Note};
use windlass_core::queue::{MAX_PRIORITY, boost_code};
use windlass_core::scale::Bounds;
use windlass_core::store::{
    Backlog, DEPTH_SHOWN, KindLimits, KindMoved, KindUpdate, Live, Permits, QueueState, QueueUpdate, Wake,
};
use windlass_core::time::micros;
use windlass_core::{Backoff, KindId, KindSpec, QueueId, QueueSpec, Rate, Resource, StoreError, Time};

use crate::audit::{Subject, Watched};
use crate::error::{Answer, other};
use crate::in_force::in_force;
use crate::lane::{check_all, stored_queue};
use crate::row::{duration, small};
use crate::scope::Scope;
use crate::{audit, resource};

/// Stands for a lifted bound.
const NO_RATE: &str = "none";

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
        let before = key_concurrency(scope.connection, kind)?;
        moved.extend(put_kind(scope.connection, kind)?);
        if before.is_none() {
            audit::note(scope, actor, Note::kind_registered(kind).as_ref())?;
        }
        if let (Some((id, before)), Some((_, now))) = (before, key_concurrency(scope.connection, kind)?)
            && before < now
        {
            check_all(scope, id)?;
        }
    }
    if !moved.is_empty() {
        return Err(StoreError::KindsMoved { moved }.into());
    }
    scope.wake(Wake::Any);
    Ok(())
}

fn put_queue(connection: &Connection, queue: &QueueSpec) -> Answer<()> {
    connection
        .prepare_cached(
            "insert into windlass_queues (name, priority, concurrency, cadence_us, sla_us, owner, colour, depth_cap,
                 concurrency_min, concurrency_max, resource, global_concurrency, boost_after_us)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             on conflict (name) do update set priority = excluded.priority, concurrency = excluded.concurrency,
                 cadence_us = excluded.cadence_us, sla_us = excluded.sla_us, owner = excluded.owner,
                 colour = excluded.colour, depth_cap = excluded.depth_cap,
                 concurrency_min = excluded.concurrency_min, concurrency_max = excluded.concurrency_max,
                 resource = excluded.resource, global_concurrency = excluded.global_concurrency,
                 boost_after_us = excluded.boost_after_us",
        )?
        .execute((
            &queue.name,
            queue.priority,
            queue.concurrency,
            micros(queue.cadence),
            queue.sla.map(micros),
            &queue.owner,
            &queue.colour,
            queue.depth_cap.map(|cap| i64::try_from(cap).unwrap_or(i64::MAX)),
            queue.bounds.map(|bounds| bounds.min),
            queue.bounds.map(|bounds| bounds.max),
            queue.resource.as_ref().map(|resource| &resource.name),
            queue.global_concurrency,
            queue.boost_after.map(micros),
        ))?;
    resource::put(connection, queue.resource.as_ref())
}

/// Answers with a kind that belongs to another queue, and leaves it there.
fn put_kind(connection: &Connection, kind: &KindSpec) -> Answer<Option<KindMoved>> {
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
    if let Some((id, name)) = stored
        && id != queue
    {
        let (kind, wanted) = (kind.name.clone(), kind.queue.clone());
        return Ok(Some(KindMoved { kind, stored: name, wanted }));
    }
    connection
        .prepare_cached(
            "insert into windlass_kinds (name, queue, priority, max_attempts, timeout_us, backoff_base_us,
                 backoff_cap_us, description, key_concurrency, configured_key_concurrency, rate, resource)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11)
             on conflict (name) do update set priority = excluded.priority, max_attempts = excluded.max_attempts,
                 timeout_us = excluded.timeout_us, backoff_base_us = excluded.backoff_base_us,
                 backoff_cap_us = excluded.backoff_cap_us, description = excluded.description,
                 configured_key_concurrency = excluded.key_concurrency, rate = excluded.rate,
                 resource = excluded.resource",
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
            kind.key_concurrency,
            kind.rate.map(|rate| rate.to_string()),
            kind.resource.as_ref().map(|resource| &resource.name),
        ))?;
    let id = connection
        .query_row("select id from windlass_kinds where name = ?1", [&kind.name], |row| row.get(0))?;
    put_key_concurrency(connection, KindId(id))?;
    resource::put(connection, kind.resource.as_ref())?;
    Ok(None)
}

/// What holds of what is configured and what an operator said.
fn put_key_concurrency(connection: &Connection, kind: KindId) -> Answer<()> {
    connection
        .prepare_cached(
            "update windlass_kinds set key_concurrency = coalesce(live_key_concurrency, configured_key_concurrency)
             where id = ?1",
        )?
        .execute([kind.0])?;
    Ok(())
}

fn key_concurrency(connection: &Connection, kind: &KindSpec) -> Answer<Option<(KindId, u16)>> {
    let known = connection
        .prepare_cached("select id, key_concurrency from windlass_kinds where name = ?1")?
        .query_row([&kind.name], |row| Ok((KindId(row.get(0)?), row.get(1)?)))
        .optional()?;
    Ok(known)
}

pub(crate) fn kinds(connection: &Connection) -> Answer<Vec<(KindId, QueueId, KindSpec)>> {
    let mut statement = connection.prepare_cached(
        "select k.id, k.queue, k.name, q.name, k.priority, k.max_attempts, k.timeout_us, k.backoff_base_us,
                k.backoff_cap_us, k.description, k.key_concurrency, coalesce(k.live_rate, k.rate), r.name,
                coalesce(r.live_permits, r.permits)
         from windlass_kinds k join windlass_queues q on q.id = k.queue
         left join windlass_resources r on r.name = coalesce(k.resource, q.resource) order by k.id",
    )?;
    let rows = statement.query_map([], |row| {
        let spec = KindSpec {
            name: row.get(2)?,
            queue: row.get(3)?,
            priority: row.get(4)?,
            max_attempts: small(row, 5)?,
            timeout: row.get::<_, Option<i64>>(6)?.map(duration),
            backoff: Backoff { base: duration(row.get(7)?), cap: duration(row.get(8)?) },
            key_concurrency: row.get(10)?,
            rate: rate(row, 11)?,
            resource: resource_in(row, 12, 13)?,
            description: row.get(9)?,
        };
        Ok((KindId(row.get(0)?), QueueId(row.get(1)?), spec))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A rate as it is written; `none` is an operator's word for no bound.
pub(crate) fn rate(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Rate>> {
    match row.get::<_, Option<String>>(column)? {
        Some(text) if text != NO_RATE => text
            .parse()
            .map(Some)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))),
        _ => Ok(None),
    }
}

fn resource_in(row: &Row<'_>, name: usize, permits: usize) -> rusqlite::Result<Option<Resource>> {
    let permits = row.get(permits)?;
    Ok(row.get::<_, Option<String>>(name)?.map(|name| Resource { name, permits }))
}

/// An upper bound alone is an operator's word for none: an older process takes it for a bound, which it may.
pub(crate) fn bounds(row: &Row<'_>, min: usize, max: usize) -> rusqlite::Result<Option<Bounds>> {
    let (min, max): (Option<u32>, Option<u32>) = (row.get(min)?, row.get(max)?);
    Ok(min.zip(max).map(|(min, max)| Bounds { min, max }))
}

/// Of these kinds, those with a limit.
pub(crate) fn kind_limits(connection: &Connection, kinds: &[KindId]) -> Answer<Vec<KindLimits>> {
    let mut statement = connection.prepare_cached(
        "select k.id, coalesce(k.live_rate, k.rate), r.name, coalesce(r.live_permits, r.permits)
         from windlass_kinds k join windlass_queues q on q.id = k.queue
         left join windlass_resources r on r.name = coalesce(k.resource, q.resource)
         where k.rate is not null or k.live_rate is not null or r.name is not null order by k.id",
    )?;
    let rows = statement.query_map([], |row| {
        let permits = row.get::<_, Option<u32>>(3)?;
        let resource = row.get::<_, Option<String>>(2)?.zip(permits);
        let resource = resource.map(|(resource, permits)| Permits { resource, permits });
        Ok(KindLimits { kind: KindId(row.get(0)?), rate: rate(row, 1)?, resource })
    })?;
    let mut limits: Vec<KindLimits> = rows.collect::<Result<_, _>>()?;
    limits.retain(|of| kinds.contains(&of.kind) && (of.rate.is_some() || of.resource.is_some()));
    Ok(limits)
}

pub(crate) fn queues(connection: &Connection, now: Time) -> Answer<Vec<QueueState>> {
    let mut statement = connection.prepare_cached(
        concat!(
"select q.id, q.name, q.priority, ",
in_force!(concurrency),
", q.cadence_us, q.sla_us, q.owner,
                q.colour, ",
in_force!(depth_cap),
", q.paused,
                coalesce((select sum(json_array_length(c.ids)) from windlass_claims c where c.queue = q.id), 0),
                ",
in_force!(concurrency_min),
",
                ",
in_force!(concurrency_max),
", r.name, coalesce(r.live_permits, r.permits),
                ",
in_force!(global_concurrency),
",
                ",
in_force!(boost_after_us),
"
         from windlass_queues q left join windlass_resources r on r.name = q.resource order by q.id"
),
    )?;
    let rows = statement.query_map([], |row| {
        let spec = QueueSpec {
            name: row.get(1)?,
            priority: row.get(2)?,
            concurrency: row.get(3)?,
            cadence: duration(row.get(4)?),
            sla: row.get::<_, Option<i64>>(5)?.map(duration),
            owner: row.get(6)?,
            colour: row.get(7)?,
            depth_cap: row.get::<_, Option<i64>>(8)?.map(i64::unsigned_abs),
            bounds: bounds(row, 11, 12)?,
            resource: resource_in(row, 13, 14)?,
            global_concurrency: row.get(15)?,
            boost_after: row.get::<_, Option<i64>>(16)?.map(duration),
        };
        Ok(QueueState {
            id: QueueId(row.get(0)?),
            spec,
            paused: row.get(9)?,
            running: row.get::<_, i64>(10)?.unsigned_abs(),
            depth: 0,
            scheduled: 0,
            oldest: None,
        })
    })?;
    let mut queues: Vec<QueueState> = rows.collect::<Result<_, _>>()?;
    for queue in &mut queues {
        fill_depths(connection, queue, now)?;
    }
    Ok(queues)
}

/// One index range per priority, of those in line too: jobs that lie ahead are never walked over to count those that are due.
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
        // At least one row is looked at even when the cap is reached: the oldest may be of any priority.
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
    let watched = Watched::begin(scope.connection, Subject::Queue(queue), update.actor.as_ref())?;
    let bounds = update.bounds.and_then(Live::set);
    let depth_cap = update.depth_cap.and_then(Live::set);
    let global_concurrency = update.global_concurrency.and_then(Live::set);
    let changed = scope
        .connection
        .prepare_cached(
            "update windlass_queues set paused = coalesce(:paused, paused),
                 live_concurrency = case when :concurrency_said then :concurrency else live_concurrency end,
                 live_concurrency_min = case when :bounds_said then :min else live_concurrency_min end,
                 live_concurrency_max = case when :unbounded then coalesce(:concurrency, live_concurrency, concurrency)
                                             when :bounds_said then :max else live_concurrency_max end,
                 live_depth_cap = case when :depth_cap_said then :depth_cap else live_depth_cap end,
                 live_depth_cap_set = case when :depth_cap_said then :depth_cap_set else live_depth_cap_set end,
                 live_global_concurrency = case when :global_said then :global else live_global_concurrency end,
                 live_global_concurrency_set = case when :global_said then :global_set
                                                    else live_global_concurrency_set end,
                 live_boost_after_us = case when :boost_said then :boost else live_boost_after_us end
             where id = :id",
        )?
        .execute(named_params! {
            ":id": queue.0,
            ":paused": update.paused,
            ":concurrency_said": update.concurrency.is_some(),
            ":concurrency": update.concurrency.and_then(Live::set),
            ":bounds_said": update.bounds.is_some(),
            ":unbounded": bounds == Some(None),
            ":min": bounds.flatten().map(|bounds| bounds.min),
            ":max": bounds.flatten().map(|bounds| bounds.max),
            ":depth_cap_said": update.depth_cap.is_some(),
            ":depth_cap_set": depth_cap.is_some(),
            ":depth_cap": depth_cap.flatten().map(|cap| i64::try_from(cap).unwrap_or(i64::MAX)),
            ":global_said": update.global_concurrency.is_some(),
            ":global_set": global_concurrency.is_some(),
            ":global": global_concurrency.flatten(),
            ":boost_said": update.boost_after.is_some(),
            ":boost": update.boost_after.and_then(boost_code),
        })?;
    if let Some(permits) = update.permits {
        let resource = scope
            .connection
            .prepare_cached("select resource from windlass_queues where id = ?1")?
            .query_row([queue.0], |row| row.get::<_, Option<String>>(0))
            .optional()?;
        if let Some(resource) = resource.flatten() {
            resource::set_permits(scope.connection, &resource, permits)?;
        }
    }
    if let Some(watched) = watched {
        watched.end(scope)?;
    }
    scope.wake(Wake::Any);
    Ok(changed > 0)
}

pub(crate) fn update_kind(scope: &mut Scope<'_>, kind: KindId, update: &KindUpdate) -> Answer<bool> {
    let connection = scope.connection;
    let watched = Watched::begin(connection, Subject::Kind(kind), update.actor.as_ref())?;
    let resource = connection
        .prepare_cached(
            "select coalesce(k.resource, q.resource)
             from windlass_kinds k join windlass_queues q on q.id = k.queue where k.id = ?1",
        )?
        .query_row([kind.0], |row| row.get::<_, Option<String>>(0))
        .optional()?;
    let Some(resource) = resource else { return Ok(false) };
    if let Some(rate) = update.rate {
        let rate = rate.set().map(|rate| rate.map_or(NO_RATE.to_owned(), |rate| rate.to_string()));
        connection
            .prepare_cached("update windlass_kinds set live_rate = ?2 where id = ?1")?
            .execute((kind.0, rate))?;
    }
    if let Some(at_once) = update.key_concurrency {
        connection
            .prepare_cached("update windlass_kinds set live_key_concurrency = ?2 where id = ?1")?
            .execute((kind.0, at_once.set()))?;
        put_key_concurrency(connection, kind)?;
        check_all(scope, kind)?;
    }
    if let (Some(permits), Some(resource)) = (update.permits, resource) {
        resource::set_permits(connection, &resource, permits)?;
    }
    if let Some(watched) = watched {
        watched.end(scope)?;
    }
    scope.wake(Wake::Any);
    Ok(true)
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
