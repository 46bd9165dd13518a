//! What operators did: one line per act, written in the transaction that did it, and read newest first.
//!
//! Owns the audit's table. What a line says is `core::audit`'s word.

use async_trait::async_trait;
use rusqlite::types::Value as Bound;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use serde_json::{Map, Value};
use windlass_core::audit::{Act, Actor, KIND_CHANGE, Note, QUEUE_CHANGE, differences};
use windlass_core::store::{ActFilter, AuditStore};
use windlass_core::{KindId, QueueId, StoreError, Time, TxRef};

use crate::SqliteStore;
use crate::error::{Answer, Fault};
use crate::in_force::in_force;
use crate::scope::Scope;

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit(&self, filter: &ActFilter) -> Result<Vec<Act>, StoreError> {
        let filter = filter.clone();
        self.read("read the audit", move |connection| list(connection, &filter)).await
    }

    async fn note_in(&self, tx: TxRef<'_>, actor: &Actor, line: &Note) -> Result<(), StoreError> {
        self.write_in("write the audit", tx, |scope| note(scope, Some(actor), Some(line))).await
    }
}

/// Nothing where nobody is named, or nothing changed.
pub(crate) fn note(scope: &Scope<'_>, actor: Option<&Actor>, note: Option<&Note>) -> Answer<()> {
    let (Some(actor), Some(note)) = (actor, note) else { return Ok(()) };
    let detail = serde_json::to_string(&note.detail).map_err(|error| Fault::corrupt(error.to_string()))?;
    scope
        .connection
        .prepare_cached(
            "insert into windlass_audit (at, actor, act, subject, detail) values (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((scope.now.0, actor.name(), note.act, &note.subject, detail))?;
    Ok(())
}

fn list(connection: &Connection, filter: &ActFilter) -> Answer<Vec<Act>> {
    let (mut conditions, mut values) = (Vec::new(), Vec::<Bound>::new());
    let mut given = |condition: &'static str, value: Option<Bound>| {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(value);
        }
    };
    given("seq < ?", Some(filter.before.unwrap_or(i64::MAX).into()));
    given("actor = ?", filter.actor.clone().map(Bound::from));
    given("subject = ?", filter.subject.clone().map(Bound::from));
    match filter.family() {
        Some((from, to)) => {
            given("act >= ?", Some(from.into()));
            given("act < ?", Some(to.into()));
        }
        None => given("act = ?", filter.act.clone().map(Bound::from)),
    }
    given("at >= ?", filter.from.map(|at| at.0.into()));
    given("at < ?", filter.to.map(|at| at.0.into()));
    values.push(i64::from(filter.limit).into());
    let sql = format!(
        "select seq, at, actor, act, subject, detail from windlass_audit where {} order by seq desc limit ?",
        conditions.join(" and ")
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        Ok(Act {
            seq: row.get(0)?,
            at: Time(row.get(1)?),
            actor: row.get(2)?,
            act: row.get(3)?,
            subject: row.get(4)?,
            detail: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What an operator changes live.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    Queue(QueueId),
    Kind(KindId),
}

/// The figures in force, as `queues` and `kinds` show them.
const QUEUE: &str = concat!(
    "select 'queue/' || q.name, json_object(
         'paused', json(iif(q.paused, 'true', 'false')),
         'concurrency', ",
    in_force!(concurrency),
    ",
         'concurrency_min', ",
    in_force!(concurrency_min),
    ",
         'concurrency_max', ",
    in_force!(concurrency_max),
    ",
         'global_concurrency',
         ",
    in_force!(global_concurrency),
    ",
         'permits', coalesce(r.live_permits, r.permits),
         'depth_cap', ",
    in_force!(depth_cap),
    ",
         'boost_after_ms', ",
    in_force!(boost_after_us),
    " / 1000)
     from windlass_queues q left join windlass_resources r on r.name = q.resource where q.id = ?1"
);

const KIND: &str = "select 'kind/' || k.name, json_object(
         'rate', nullif(coalesce(k.live_rate, k.rate), 'none'), 'permits', coalesce(r.live_permits, r.permits),
         'key_concurrency', k.key_concurrency)
     from windlass_kinds k join windlass_queues q on q.id = k.queue
     left join windlass_resources r on r.name = coalesce(k.resource, q.resource) where k.id = ?1";

/// A change under way: how things stood is read before it, how they stand after it.
pub(crate) struct Watched {
    subject: Subject,
    actor: Actor,
    before: Map<String, Value>,
}

impl Watched {
    /// Nothing where nobody is named or there is no such thing.
    pub(crate) fn begin(
        connection: &Connection,
        subject: Subject,
        actor: Option<&Actor>,
    ) -> Answer<Option<Watched>> {
        let Some(actor) = actor else { return Ok(None) };
        let figures = figures(connection, subject)?;
        Ok(figures.map(|(_, before)| Watched { subject, actor: actor.clone(), before }))
    }

    pub(crate) fn end(self, scope: &Scope<'_>) -> Answer<()> {
        let Some((name, after)) = figures(scope.connection, self.subject)? else { return Ok(()) };
        let act = match self.subject {
            Subject::Queue(_) => QUEUE_CHANGE,
            Subject::Kind(_) => KIND_CHANGE,
        };
        let line = Note::about(act, name, differences(&self.before, &after));
        note(scope, Some(&self.actor), line.as_ref())
    }
}

fn figures(connection: &Connection, subject: Subject) -> Answer<Option<(String, Map<String, Value>)>> {
    let (sql, id) = match subject {
        Subject::Queue(id) => (QUEUE, i64::from(id.0)),
        Subject::Kind(id) => (KIND, i64::from(id.0)),
    };
    let row = connection
        .prepare_cached(sql)?
        .query_row([id], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((name, text)) = row else { return Ok(None) };
    let read = serde_json::from_str(&text);
    Ok(Some((name, read.map_err(|error| Fault::corrupt(format!("figures for the audit: {error}")))?)))
}
