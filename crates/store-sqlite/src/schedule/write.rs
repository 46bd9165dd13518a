//! Creating, changing, pausing and deleting schedules.

use windlass_core::StoreError;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::schedule::ScheduleSpec;
use windlass_core::store::{Put, SchedulePut, ScheduleRecord, Wake};

use super::read;
use crate::audit;
use crate::error::{Answer, other};
use crate::scope::Scope;

pub(super) fn put(scope: &mut Scope<'_>, spec: &ScheduleSpec, actor: Option<&Actor>) -> Answer<SchedulePut> {
    let kept = spec.to_kept();
    let before = read::one(scope.connection, &spec.name)?;
    if let Some(record) = before.as_ref().filter(|row| row.kept == kept && row.payload == spec.payload) {
        return Ok(SchedulePut { record: record.clone(), what: Put::Same });
    }
    let progress = before.as_ref().map(|row| (row.created_at, row.last_tick));
    let standing = spec
        .position(progress, scope.now)
        .map_err(|invalid| StoreError::Corrupt { what: format!("an unchecked schedule: {invalid}") })?;
    scope
        .connection
        .prepare_cached(
            "insert into windlass_schedules (name, spec, payload, last_tick, next_at, created_at, updated_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             on conflict (name) do update set spec = excluded.spec, payload = excluded.payload,
                 revision = revision + 1, next_at = excluded.next_at, updated_at = excluded.updated_at",
        )?
        .execute((
            &spec.name,
            &kept,
            &spec.payload,
            standing.last_tick.0,
            standing.next_at.map(|at| at.0),
            standing.anchor.0,
            scope.now.0,
        ))?;
    // Its next tick may be earlier than the one that workers wait for.
    scope.wake(Wake::Any);
    let what = if before.is_some() { Put::Changed } else { Put::Created };
    let record = read::one(scope.connection, &spec.name)?
        .ok_or_else(|| other("write a schedule", "the row is not there"))?;
    audit::note(scope, actor, NewAudit::schedule_put(before.as_ref(), &record).as_ref())?;
    Ok(SchedulePut { record, what })
}

pub(super) fn delete(scope: &mut Scope<'_>, name: &str, actor: Option<&Actor>) -> Answer<bool> {
    let Some(before) = read::one(scope.connection, name)? else { return Ok(false) };
    scope.connection.prepare_cached("delete from windlass_schedules where name = ?1")?.execute([name])?;
    audit::note(scope, actor, NewAudit::schedule_deleted(&before).as_ref())?;
    Ok(true)
}

pub(super) fn pause(
    scope: &mut Scope<'_>,
    name: &str,
    paused: bool,
    actor: Option<&Actor>,
) -> Answer<Option<ScheduleRecord>> {
    let changed = scope
        .connection
        .prepare_cached(
            "update windlass_schedules set paused = ?2, revision = revision + 1, updated_at = ?3
             where name = ?1 and paused <> ?2",
        )?
        .execute((name, paused, scope.now.0))?;
    if changed > 0 {
        audit::note(scope, actor, NewAudit::schedule_paused(name, paused).as_ref())?;
    }
    if changed > 0 && !paused {
        scope.wake(Wake::Any);
    }
    read::one(scope.connection, name)
}
