//! What operators did: one line per act, written in the transaction that did it, and read newest first.
//!
//! Owns the audit's table. What a line says is `core::audit`'s word.

use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};
use windlass_core::audit::{Act, KIND_CHANGE, QUEUE_CHANGE, differences};
use windlass_core::{KindId, QueueId, Time};

use crate::error::{Answer, Fault};
use crate::scope::Scope;

pub(crate) fn note(scope: &Scope<'_>, actor: &str, act: &str, subject: &str, detail: &Value) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert into windlass_audit (at, actor, act, subject, detail) values (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((scope.now.0, actor, act, subject, detail.to_string()))?;
    Ok(())
}

pub(crate) fn list(connection: &Connection, before: Option<i64>, limit: u32) -> Answer<Vec<Act>> {
    let mut statement = connection.prepare_cached(
        "select seq, at, actor, act, subject, detail from windlass_audit where seq < ?1 order by seq desc limit ?2",
    )?;
    let rows = statement.query_map((before.unwrap_or(i64::MAX), limit), |row| {
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
const QUEUE: &str = "select 'queue/' || q.name, json_object(
         'paused', json(iif(q.paused, 'true', 'false')),
         'concurrency', coalesce(q.live_concurrency, q.concurrency),
         'concurrency_min', coalesce(q.live_concurrency_min, q.concurrency_min),
         'concurrency_max', coalesce(q.live_concurrency_max, q.concurrency_max),
         'global_concurrency',
         case when q.live_global_concurrency_set then q.live_global_concurrency else q.global_concurrency end,
         'permits', coalesce(r.live_permits, r.permits),
         'depth_cap', case when q.live_depth_cap_set then q.live_depth_cap else q.depth_cap end,
         'boost_after_ms', nullif(coalesce(q.live_boost_after_us, q.boost_after_us), 0) / 1000)
     from windlass_queues q left join windlass_resources r on r.name = q.resource where q.id = ?1";

const KIND: &str = "select 'kind/' || k.name, json_object(
         'rate', nullif(coalesce(k.live_rate, k.rate), 'none'), 'permits', coalesce(r.live_permits, r.permits),
         'key_concurrency', k.key_concurrency)
     from windlass_kinds k join windlass_queues q on q.id = k.queue
     left join windlass_resources r on r.name = coalesce(k.resource, q.resource) where k.id = ?1";

/// A change under way: how things stood is read before it, how they stand after it.
pub(crate) struct Watched {
    subject: Subject,
    actor: String,
    before: Map<String, Value>,
}

impl Watched {
    /// Nothing where nobody is named or there is no such thing.
    pub(crate) fn begin(
        connection: &Connection,
        subject: Subject,
        actor: Option<&str>,
    ) -> Answer<Option<Watched>> {
        let Some(actor) = actor else { return Ok(None) };
        let figures = figures(connection, subject)?;
        Ok(figures.map(|(_, before)| Watched { subject, actor: actor.to_owned(), before }))
    }

    pub(crate) fn end(self, scope: &Scope<'_>) -> Answer<()> {
        let Some((name, after)) = figures(scope.connection, self.subject)? else { return Ok(()) };
        let act = match self.subject {
            Subject::Queue(_) => QUEUE_CHANGE,
            Subject::Kind(_) => KIND_CHANGE,
        };
        note(scope, &self.actor, act, &name, &differences(&self.before, &after))
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
