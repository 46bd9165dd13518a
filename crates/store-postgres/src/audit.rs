//! The audit log: one record per action of an operator, written in the transaction of the action, read newest first.
//!
//! Owns the audit table. What a record contains is decided by `core::audit`.

use async_trait::async_trait;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::audit::{Actor, AuditRecord, NewAudit};
use windlass_core::store::{AuditFilter, AuditStore};
use windlass_core::{StoreError, TxRef};

use crate::error::failed;
use crate::row::{PgTime, get, text_in, time};
use crate::{PostgresStore, tx};

const NOTE: &str = "
    insert into windlass.audit (at, actor, act, subject, detail) values ($1, $2, $3, $4, $5::json)";

const OP: &str = "write the audit";

#[async_trait]
impl AuditStore for PostgresStore {
    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.list_audit(filter).await
    }

    async fn note_in(&self, tx: TxRef<'_>, actor: &Actor, note: &NewAudit) -> Result<(), StoreError> {
        self.note(tx::connection(tx)?, Some(actor), Some(note)).await
    }
}

impl PostgresStore {
    /// Writes nothing without an actor or without a change.
    pub(crate) async fn note(
        &self,
        conn: &mut PgConnection,
        actor: Option<&Actor>,
        note: Option<&NewAudit>,
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

    async fn list_audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
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
        // Fixes the type of every parameter, whether its condition is present or not.
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
            Ok(AuditRecord {
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
}
