//! Writing entities with their boxes.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::entity::{
    BoxKinds, ContentHash, Current, Decision, EntityWrite, Fields, IndexPlan, IndexState, Plan, TypeSpec,
    box_key, decide,
};
use windlass_core::id::EntityNo;
use windlass_core::store::{Saved, Written};
use windlass_core::{JobId, Strategy, TypeId};

use super::{keys, read};
use crate::audit;
use crate::enqueue::{enqueue, supersede, waiting_with};
use crate::error::{Answer, Fault};
use crate::scope::Scope;

pub(super) fn put_type(scope: &mut Scope<'_>, spec: &TypeSpec, actor: Option<&Actor>) -> Answer<TypeId> {
    if actor.is_some() {
        let types = read::types(scope.connection)?;
        let before = types.iter().map(|(_, known)| known).find(|known| known.name == spec.name);
        audit::note(scope, actor, NewAudit::type_put(before, spec).as_ref())?;
    }
    let text = serde_json::to_string(spec).map_err(|error| Fault::corrupt(error.to_string()))?;
    let id = scope
        .connection
        .prepare_cached(
            "insert into windlass_types (name, spec, updated_at) values (?1, ?2, ?3)
             on conflict (name) do update set spec = excluded.spec, updated_at = excluded.updated_at returning id",
        )?
        .query_row((&spec.name, text, scope.now.0), |row| row.get(0))?;
    Ok(TypeId(id))
}

pub(super) fn add_type(scope: &mut Scope<'_>, spec: &TypeSpec) -> Answer<(TypeId, TypeSpec)> {
    let types = read::types(scope.connection)?;
    match types.into_iter().find(|(_, known)| known.name == spec.name) {
        Some(there) => Ok(there),
        None => Ok((put_type(scope, spec, None)?, spec.clone())),
    }
}

pub(super) fn save(scope: &mut Scope<'_>, boxes: &BoxKinds, writes: &[EntityWrite]) -> Answer<Vec<Saved>> {
    let mut seq = next_seq(scope.connection)?;
    let mut answers = Vec::with_capacity(writes.len());
    for write in writes {
        let known =
            write.idempotency.as_ref().map(|key| keys::find(scope.connection, key)).transpose()?.flatten();
        let answer = match known {
            Some(answer) => answer,
            None => save_one(scope, boxes, write, seq)?,
        };
        if let Saved::Written(written) = &answer {
            seq += 1;
            if let Some(key) = &write.idempotency {
                keys::keep(scope, key, written)?;
            }
        }
        answers.push(answer);
    }
    Ok(answers)
}

fn save_one(scope: &mut Scope<'_>, boxes: &BoxKinds, write: &EntityWrite, seq: i64) -> Answer<Saved> {
    let current = current(scope.connection, write)?;
    match decide(current.as_ref().map(|(_, row)| row), write) {
        Decision::Refused(refusal) => Ok(Saved::Refused(refusal)),
        Decision::Write(plan) => {
            let row = Row { no: current.as_ref().map(|(no, _)| *no), seq };
            put(scope, boxes, write, &plan, row).map(Saved::Written)
        }
    }
}

/// The feed position after every change so far.
pub(super) fn next_seq(connection: &Connection) -> Answer<i64> {
    let last = connection
        .prepare_cached("select coalesce(max(seq), 0) + 1 from windlass_entities")?
        .query_row([], |row| row.get(0))?;
    Ok(last)
}

fn current(connection: &Connection, write: &EntityWrite) -> Answer<Option<(i64, Current)>> {
    let row = connection
        .prepare_cached(
            "select no, version, fields, hash, state, waiting from windlass_entities where type = ?1 and id = ?2",
        )?
        .query_row((write.type_id.0, &write.id), |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, Option<String>>(2)?,
                row.get::<_, Option<ContentHash>>(3)?,
                row.get::<_, i16>(4)?,
                row.get::<_, Option<i16>>(5)?,
            ))
        })
        .optional()?;
    let Some((no, version, fields, hash, state, waiting)) = row else { return Ok(None) };
    let fields = fields.map(|text| read_fields(&text)).transpose()?;
    let state =
        IndexState::from_code(state).ok_or_else(|| Fault::corrupt(format!("state {state} of an entity")))?;
    let waiting = waiting.and_then(Strategy::from_code);
    Ok(Some((no, Current { version: version.unsigned_abs(), fields, hash, state, waiting })))
}

pub(super) fn read_fields(text: &str) -> Answer<Fields> {
    serde_json::from_str(text).map_err(|error| Fault::corrupt(format!("an entity's fields: {error}")))
}

struct Row {
    no: Option<i64>,
    seq: i64,
}

fn put(
    scope: &mut Scope<'_>,
    boxes: &BoxKinds,
    write: &EntityWrite,
    plan: &Plan<'_>,
    row: Row,
) -> Answer<Written> {
    let (mut state, mut job, mut strategy) = (IndexState::Indexed, None, None);
    match &plan.index {
        IndexPlan::Keep => {}
        IndexPlan::Ready(_) => {
            end_box(scope, write)?;
            strategy = Some(Strategy::Sync);
        }
        IndexPlan::Box(wanted) => {
            let new = boxes.boxed(write, plan, *wanted);
            job = enqueue(scope, std::slice::from_ref(&new))?.first().map(|enqueued| enqueued.id);
            (state, strategy) = (IndexState::Pending, Some(*wanted));
        }
        IndexPlan::Gone => {
            end_box(scope, write)?;
            state = IndexState::Deleted;
        }
    }
    let no = write_row(scope, write, plan, &row, state, job, strategy)?;
    match &plan.index {
        IndexPlan::Ready(prepared) => {
            put_vector(scope, no, &prepared.space, &prepared.hash, &prepared.vector)?
        }
        IndexPlan::Gone => {
            scope
                .connection
                .prepare_cached("delete from windlass_vectors where entity = ?1")?
                .execute([no])?;
        }
        IndexPlan::Keep | IndexPlan::Box(_) => {}
    }
    let (version, operation) = (plan.version, plan.operation);
    let id = write.id.clone();
    Ok(Written { no: EntityNo(no), id, version, operation, state, job, strategy })
}

fn write_row(
    scope: &mut Scope<'_>,
    write: &EntityWrite,
    plan: &Plan<'_>,
    row: &Row,
    state: IndexState,
    job: Option<JobId>,
    strategy: Option<Strategy>,
) -> Answer<i64> {
    let fields = plan.fields.as_deref().map(serde_json::to_string).transpose();
    let fields = fields.map_err(|error| Fault::corrupt(error.to_string()))?;
    let version = i64::try_from(plan.version).unwrap_or(i64::MAX);
    // A new row is indexed with this version or not at all; an existing one keeps its indexed version.
    let indexed = (state == IndexState::Indexed).then_some(version);
    let waiting = job.and(strategy).map(Strategy::code);
    let (hash, job, now) = (plan.hash.as_ref(), job.map(|job| job.0), scope.now.0);
    match row.no {
        None => {
            scope
                .connection
                .prepare_cached(
                    "insert into windlass_entities (type, id, version, seq, fields, hash, state, waiting,
                     indexed_version, job_id, created_at, updated_at)
                     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)",
                )?
                .execute((
                    write.type_id.0,
                    &write.id,
                    version,
                    row.seq,
                    fields,
                    hash,
                    state.code(),
                    waiting,
                    indexed,
                    job,
                    now,
                ))?;
            Ok(scope.connection.last_insert_rowid())
        }
        Some(no) => {
            scope
                .connection
                .prepare_cached(
                    "update windlass_entities set version = ?2, seq = ?3, fields = ?4, hash = ?5, state = ?6,
                         waiting = ?7, indexed_version = coalesce(?8, case when ?6 = 4 then null else indexed_version end),
                         job_id = coalesce(?9, job_id), error = null, updated_at = ?10
                     where no = ?1",
                )?
                .execute((no, version, row.seq, fields, hash, state.code(), waiting, indexed, job, now))?;
            Ok(no)
        }
    }
}

/// A waiting box is no longer needed.
fn end_box(scope: &mut Scope<'_>, write: &EntityWrite) -> Answer<()> {
    let Some(waiting) = waiting_with(scope.connection, &box_key(&write.spec.name, &write.id))? else {
        return Ok(());
    };
    scope
        .connection
        .prepare_cached("delete from windlass_cancels where job_id = ?1")?
        .execute([waiting.id.0])?;
    supersede(scope, &waiting)
}

pub(super) fn put_vector(
    scope: &Scope<'_>,
    no: i64,
    space: &str,
    hash: &ContentHash,
    vector: &[u8],
) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert or replace into windlass_vectors (entity, space, hash, vector) values (?1, ?2, ?3, ?4)",
        )?
        .execute((no, space, hash, vector))?;
    Ok(())
}
