//! What operators did: one line per act, written in the transaction that did it, and read newest first.
//!
//! Owns the audit's table. What a line says is `core::audit`'s word.

use async_trait::async_trait;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::audit::{Act, Actor, KIND_CHANGE, Note, QUEUE_CHANGE, differences};
use windlass_core::store::{ActFilter, AuditStore};
use windlass_core::{KindId, QueueId, StoreError, TxRef};

use crate::error::failed;
use crate::in_force::in_force;
use crate::row::{PgTime, get, text_in, time};
use crate::{PostgresStore, tx};

const NOTE: &str = "
    insert into windlass.audit (at, actor, act, subject, detail) values ($1, $2, $3, $4, $5::json)";

/// The figures in force, as `queues` and `kinds` show them, under the lock of the row that is about to change.
const QUEUE: &str = concat!(
    "
    select 'queue/' || q.name as name, json_build_object(
        'paused', q.paused,
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
    " / 1000)::text as figures
    from windlass.queues q left join windlass.resources r on r.name = q.resource
    where q.id = $1 for no key update of q"
);

const KIND: &str = "
    select 'kind/' || k.name as name, json_build_object(
        'rate', nullif(coalesce(k.live_rate, k.rate), 'none'), 'permits', coalesce(r.live_permits, r.permits),
        'key_concurrency', k.key_concurrency)::text as figures
    from windlass.kinds k join windlass.queues q on q.id = k.queue
    left join windlass.resources r on r.name = coalesce(k.resource, q.resource)
    where k.id = $1 for no key update of k";

const OP: &str = "write the audit";

/// What an operator changes live.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    Queue(QueueId),
    Kind(KindId),
}

/// A change under way: how things stood is read before it, how they stand after it.
pub(crate) struct Watched {
    subject: Subject,
    actor: Actor,
    before: Map<String, Value>,
}

#[async_trait]
impl AuditStore for PostgresStore {
    async fn audit(&self, filter: &ActFilter) -> Result<Vec<Act>, StoreError> {
        self.list_audit(filter).await
    }

    async fn note_in(&self, tx: TxRef<'_>, actor: &Actor, note: &Note) -> Result<(), StoreError> {
        self.note(tx::connection(tx)?, Some(actor), Some(note)).await
    }
}

impl PostgresStore {
    /// Nothing where nobody is named, or nothing changed.
    pub(crate) async fn note(
        &self,
        conn: &mut PgConnection,
        actor: Option<&Actor>,
        note: Option<&Note>,
    ) -> Result<(), StoreError> {
        let (Some(actor), Some(note)) = (actor, note) else { return Ok(()) };
        let now = self.now_on(conn).await?;
        let detail = serde_json::to_string(&note.detail);
        sqlx::query(self.sql(NOTE))
            .bind(PgTime(now))
            .bind(text_in(actor.name()))
            .bind(note.act)
            .bind(text_in(&note.subject))
            .bind(detail.map_err(|error| StoreError::Corrupt { what: error.to_string() })?)
            .execute(conn)
            .await
            .map_err(failed(OP))?;
        Ok(())
    }

    async fn list_audit(&self, filter: &ActFilter) -> Result<Vec<Act>, StoreError> {
        let mut conditions = vec!["seq < $1"];
        let mut given = |there: bool, condition: &'static str| {
            if there {
                conditions.push(condition);
            }
        };
        let (family, act) = match filter.family() {
            Some(family) => (Some(family), None),
            None => (None, filter.act.as_deref()),
        };
        given(filter.actor.is_some(), "actor = $3");
        given(filter.subject.is_some(), "subject = $4");
        given(act.is_some(), "act collate \"C\" = $5");
        given(family.is_some(), "act collate \"C\" >= $6 and act collate \"C\" < $7");
        given(filter.from.is_some(), "at >= $8");
        given(filter.to.is_some(), "at < $9");
        // The type of every parameter is fixed here, whether its condition is there or not.
        let sql = self.dynamic(&format!(
            "with given as (select $3::text, $4::text, $5::text, $6::text, $7::text, $8::timestamptz, $9::timestamptz)
             select seq, at, actor, act, subject, detail::text from windlass.audit where {} order by seq desc limit $2",
            conditions.join(" and ")
        ));
        let (from, to) = family.unzip();
        let query = sqlx::query(sql)
            .bind(filter.before.unwrap_or(i64::MAX))
            .bind(i64::from(filter.limit))
            .bind(filter.actor.as_deref().map(text_in))
            .bind(filter.subject.as_deref().map(text_in))
            .bind(act.map(text_in))
            .bind(from.as_deref().map(text_in))
            .bind(to.as_deref().map(text_in))
            .bind(filter.from.map(PgTime))
            .bind(filter.to.map(PgTime));
        let rows = query.fetch_all(&self.pool).await.map_err(failed("read the audit"))?;
        let act = |row: &PgRow| {
            Ok(Act {
                seq: get(row, "seq")?,
                at: time(row, "at")?,
                actor: get(row, "actor")?,
                act: get(row, "act")?,
                subject: get(row, "subject")?,
                detail: get(row, "detail")?,
            })
        };
        rows.iter().map(act).collect()
    }

    /// Nothing where nobody is named or there is no such thing.
    pub(crate) async fn watch(
        &self,
        conn: &mut PgConnection,
        subject: Subject,
        actor: Option<&Actor>,
    ) -> Result<Option<Watched>, StoreError> {
        let Some(actor) = actor else { return Ok(None) };
        let figures = self.figures(conn, subject).await?;
        Ok(figures.map(|(_, before)| Watched { subject, actor: actor.clone(), before }))
    }

    pub(crate) async fn note_watched(
        &self,
        conn: &mut PgConnection,
        watched: Option<Watched>,
    ) -> Result<(), StoreError> {
        let Some(watched) = watched else { return Ok(()) };
        let Some((name, after)) = self.figures(conn, watched.subject).await? else { return Ok(()) };
        let act = match watched.subject {
            Subject::Queue(_) => QUEUE_CHANGE,
            Subject::Kind(_) => KIND_CHANGE,
        };
        let note = Note::about(act, name, differences(&watched.before, &after));
        self.note(conn, Some(&watched.actor), note.as_ref()).await
    }

    async fn figures(
        &self,
        conn: &mut PgConnection,
        subject: Subject,
    ) -> Result<Option<(String, Map<String, Value>)>, StoreError> {
        let query = match subject {
            Subject::Queue(id) => sqlx::query(self.sql(QUEUE)).bind(id.0),
            Subject::Kind(id) => sqlx::query(self.sql(KIND)).bind(id.0),
        };
        let Some(row) = query.fetch_optional(conn).await.map_err(failed(OP))? else { return Ok(None) };
        let read = serde_json::from_str(&get::<String>(&row, "figures")?);
        let corrupt = |error| StoreError::Corrupt { what: format!("figures for the audit: {error}") };
        Ok(Some((get(&row, "name")?, read.map_err(corrupt)?)))
    }
}
