//! The audit log: one record per action of an operator, written in the transaction of the action, read newest
//! first.
//!
//! Owns the audit table. What a record contains is decided by `core::audit`.

use async_trait::async_trait;
use rusqlite::types::Value as Bound;
use rusqlite::{Connection, params_from_iter};
use windlass_core::audit::{Actor, AuditRecord, NewAudit};
use windlass_core::store::{AuditFilter, AuditStore};
use windlass_core::{StoreError, Time, TxRef};

use crate::SqliteStore;
use crate::error::{Answer, Fault};
use crate::scope::Scope;

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        let filter = filter.clone();
        self.read("read the audit", move |connection| list(connection, &filter)).await
    }

    async fn note_in(&self, tx: TxRef<'_>, actor: &Actor, line: &NewAudit) -> Result<(), StoreError> {
        self.write_in("write the audit", tx, |scope| note(scope, Some(actor), Some(line))).await
    }
}

/// Writes nothing without an actor or without a change.
pub(crate) fn note(scope: &Scope<'_>, actor: Option<&Actor>, note: Option<&NewAudit>) -> Answer<()> {
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

fn list(connection: &Connection, filter: &AuditFilter) -> Answer<Vec<AuditRecord>> {
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
        Ok(AuditRecord {
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
