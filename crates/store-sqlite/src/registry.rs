//! Queues and kinds as rows, so that several versions of an application may run side by side.
//!
//! Owns: both registry tables. What an operator set live is kept apart from configuration and wins. Never counts a
//! big table: depths stop at a cap.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use windlass_core::queue::MAX_PRIORITY;
use windlass_core::store::{DEPTH_SHOWN, KindMoved, QueueState, QueueUpdate, Wake};
use windlass_core::time::micros;
use windlass_core::{Backoff, KindId, KindSpec, QueueId, QueueSpec, StoreError, Time};

use crate::error::{Answer, other};
use crate::row::{duration, small};
use crate::scope::Scope;

pub(crate) fn sync_registry(scope: &mut Scope<'_>, queues: &[QueueSpec], kinds: &[KindSpec]) -> Answer<()> {
    for queue in queues {
        put_queue(scope.connection, queue)?;
    }
    let mut moved = Vec::new();
    for kind in kinds {
        moved.extend(put_kind(scope.connection, kind)?);
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
            "insert into windlass_queues (name, priority, concurrency, cadence_us, sla_us, owner, colour, depth_cap)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             on conflict (name) do update set priority = excluded.priority, concurrency = excluded.concurrency,
                 cadence_us = excluded.cadence_us, sla_us = excluded.sla_us, owner = excluded.owner,
                 colour = excluded.colour, depth_cap = excluded.depth_cap",
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
        ))?;
    Ok(())
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
                 backoff_cap_us, description) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             on conflict (name) do update set priority = excluded.priority, max_attempts = excluded.max_attempts,
                 timeout_us = excluded.timeout_us, backoff_base_us = excluded.backoff_base_us,
                 backoff_cap_us = excluded.backoff_cap_us, description = excluded.description",
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
        ))?;
    Ok(None)
}

pub(crate) fn kinds(connection: &Connection) -> Answer<Vec<(KindId, QueueId, KindSpec)>> {
    let mut statement = connection.prepare_cached(
        "select k.id, k.queue, k.name, q.name, k.priority, k.max_attempts, k.timeout_us, k.backoff_base_us,
                k.backoff_cap_us, k.description
         from windlass_kinds k join windlass_queues q on q.id = k.queue order by k.id",
    )?;
    let rows = statement.query_map([], |row| {
        let spec = KindSpec {
            name: row.get(2)?,
            queue: row.get(3)?,
            priority: row.get(4)?,
            max_attempts: small(row, 5)?,
            timeout: row.get::<_, Option<i64>>(6)?.map(duration),
            backoff: Backoff { base: duration(row.get(7)?), cap: duration(row.get(8)?) },
            description: row.get(9)?,
        };
        Ok((KindId(row.get(0)?), QueueId(row.get(1)?), spec))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn queues(connection: &Connection, now: Time) -> Answer<Vec<QueueState>> {
    let mut statement = connection.prepare_cached(
        "select q.id, q.name, q.priority, coalesce(q.live_concurrency, q.concurrency), q.cadence_us, q.sla_us, q.owner,
                q.colour, case when q.live_depth_cap_set then q.live_depth_cap else q.depth_cap end, q.paused,
                coalesce((select sum(json_array_length(c.ids)) from windlass_claims c where c.queue = q.id), 0)
         from windlass_queues q order by q.id",
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

/// One index range per priority: jobs that lie ahead are never walked over to count those that are due.
fn fill_depths(connection: &Connection, queue: &mut QueueState, now: Time) -> Answer<()> {
    let mut due = connection.prepare_cached(
        "select count(*), min(run_at) from (select run_at from windlass_ready
         where queue = ?1 and priority = ?2 and run_at <= ?3 order by run_at limit ?4)",
    )?;
    let mut ahead = connection.prepare_cached(
        "select count(*) from (select 1 from windlass_ready
         where queue = ?1 and priority = ?2 and run_at > ?3 limit ?4)",
    )?;
    for priority in 0..=MAX_PRIORITY {
        // At least one row is looked at even when the cap is reached: the oldest may be of any priority.
        let room = DEPTH_SHOWN.saturating_sub(queue.depth).max(1);
        let (count, oldest) = due.query_row((queue.id.0, priority, now.0, room.cast_signed()), |row| {
            Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, Option<i64>>(1)?))
        })?;
        queue.depth = (queue.depth + count).min(DEPTH_SHOWN);
        let oldest: Option<Duration> = oldest.map(|at| now.since(Time(at)));
        queue.oldest = queue.oldest.max(oldest);
        let room = DEPTH_SHOWN.saturating_sub(queue.scheduled);
        queue.scheduled += ahead
            .query_row((queue.id.0, priority, now.0, room.cast_signed()), |row| row.get::<_, i64>(0))?
            .unsigned_abs();
    }
    Ok(())
}

pub(crate) fn update_queue(scope: &mut Scope<'_>, queue: QueueId, update: &QueueUpdate) -> Answer<bool> {
    let lifted = update.depth_cap.map(|cap| cap.map(|cap| i64::try_from(cap).unwrap_or(i64::MAX)));
    let changed = scope
        .connection
        .prepare_cached(
            "update windlass_queues set paused = coalesce(?2, paused), live_concurrency = coalesce(?3, live_concurrency),
                 live_depth_cap = case when ?4 then ?5 else live_depth_cap end,
                 live_depth_cap_set = live_depth_cap_set or ?4
             where id = ?1",
        )?
        .execute((queue.0, update.paused, update.concurrency, lifted.is_some(), lifted.flatten()))?;
    scope.wake(Wake::Any);
    Ok(changed > 0)
}

pub(crate) fn depth(connection: &Connection, queue: QueueId, cap: u64) -> Answer<u64> {
    let cap = i64::try_from(cap).unwrap_or(i64::MAX);
    let count: i64 = connection
        .prepare_cached("select count(*) from (select 1 from windlass_ready where queue = ?1 limit ?2)")?
        .query_row((queue.0, cap), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
