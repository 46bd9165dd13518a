//! What operators did: one line per act, written in the transaction that did it, and read newest first.
//!
//! Owns the audit's table. What a line says is `core::audit`'s word.

use serde_json::{Map, Value};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::audit::{Act, KIND_CHANGE, QUEUE_CHANGE, differences};
use windlass_core::{KindId, QueueId, StoreError, Time};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, get, text_in, time};

const NOTE: &str = "
    insert into windlass.audit (at, actor, act, subject, detail) values ($1, $2, $3, $4, $5::json)";

const LIST: &str = "
    select seq, at, actor, act, subject, detail::text from windlass.audit where seq < $1 order by seq desc limit $2";

/// The figures in force, as `queues` and `kinds` show them, under the lock of the row that is about to change.
const QUEUE: &str = "
    select 'queue/' || q.name as name, json_build_object(
        'paused', q.paused,
        'concurrency', coalesce(q.live_concurrency, q.concurrency),
        'concurrency_min', coalesce(q.live_concurrency_min, q.concurrency_min),
        'concurrency_max', coalesce(q.live_concurrency_max, q.concurrency_max),
        'global_concurrency',
        case when q.live_global_concurrency_set then q.live_global_concurrency else q.global_concurrency end,
        'permits', coalesce(r.live_permits, r.permits),
        'depth_cap', case when q.live_depth_cap_set then q.live_depth_cap else q.depth_cap end,
        'boost_after_ms', nullif(coalesce(q.live_boost_after_us, q.boost_after_us), 0) / 1000)::text as figures
    from windlass.queues q left join windlass.resources r on r.name = q.resource
    where q.id = $1 for no key update of q";

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
    actor: String,
    before: Map<String, Value>,
}

impl PostgresStore {
    pub(crate) async fn note(
        &self,
        conn: &mut PgConnection,
        now: Time,
        (actor, act, subject): (&str, &str, &str),
        detail: &Value,
    ) -> Result<(), StoreError> {
        sqlx::query(self.sql(NOTE))
            .bind(PgTime(now))
            .bind(text_in(actor))
            .bind(act)
            .bind(subject)
            .bind(detail.to_string())
            .execute(conn)
            .await
            .map_err(failed(OP))?;
        Ok(())
    }

    pub(crate) async fn list_audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<Act>, StoreError> {
        let query = sqlx::query(self.sql(LIST)).bind(before.unwrap_or(i64::MAX)).bind(i64::from(limit));
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
        actor: Option<&str>,
    ) -> Result<Option<Watched>, StoreError> {
        let Some(actor) = actor else { return Ok(None) };
        let figures = self.figures(conn, subject).await?;
        Ok(figures.map(|(_, before)| Watched { subject, actor: actor.to_owned(), before }))
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
        let now = self.now_on(conn).await?;
        let detail = differences(&watched.before, &after);
        self.note(conn, now, (&watched.actor, act, &name), &detail).await
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
