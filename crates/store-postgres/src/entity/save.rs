//! Writing entities with their boxes.
//!
//! A call is one transaction and a few statements with arrays: lock and read, insert, update, end boxes, queue boxes,
//! write vectors. Two creators of one entity meet at the unique key: the second waits for the first, reads its row and
//! decides again.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::entity::{BoxKinds, EntityWrite, TypeSpec};
use windlass_core::store::{Saved, Wake};
use windlass_core::{QueueId, StoreError, Time, TxRef, TypeId};

use super::TRIES;
use super::batch::Batch;
use super::boxes::Places;
use crate::PostgresStore;
use crate::error::{STORE, failed, is_conflict, is_id_taken, translate};
use crate::row::get;
use crate::tx;

const HOLD_TYPE: &str = "select spec::text as spec from windlass.types where name = $1 for update";

const PUT_TYPE: &str = "
    insert into windlass.types (name, spec, updated_at)
    values ($2, $3::text::json, statement_timestamp() + $1::bigint * interval '1 microsecond')
    on conflict (name) do update set spec = excluded.spec, updated_at = excluded.updated_at
    returning id, xmax = 0 as new";

// Differs from SQLite, which has one writer: another process may add the same type concurrently.
const ADD_TYPE: &str = "
    insert into windlass.types (name, spec, updated_at)
    values ($2, $3::text::json, statement_timestamp() + $1::bigint * interval '1 microsecond')
    on conflict (name) do nothing";

const ONE_TYPE: &str = "select id, spec::text as spec from windlass.types where name = $1";

const OP: &str = "save entities";

/// Without an answer of the server it is unknown whether the transaction was committed.
fn not_committed(error: sqlx::Error) -> StoreError {
    match error.as_database_error() {
        Some(_) => translate(OP, error),
        None => StoreError::Unavailable { store: STORE, op: OP, source: Box::new(error) },
    }
}

fn is_retryable(error: &StoreError) -> bool {
    is_conflict(error) || is_id_taken(error)
}

impl PostgresStore {
    pub(super) async fn write_new_type(&self, spec: &TypeSpec) -> Result<(TypeId, TypeSpec), StoreError> {
        const OP: &str = "add a type";
        let corrupt = |error: serde_json::Error| StoreError::Corrupt { what: error.to_string() };
        let text = serde_json::to_string(spec).map_err(corrupt)?;
        let add = sqlx::query(self.sql(ADD_TYPE)).bind(self.offset()).bind(&spec.name).bind(&text);
        add.execute(&self.pool).await.map_err(failed(OP))?;
        let one = sqlx::query(self.sql(ONE_TYPE)).bind(&spec.name);
        let row = one.fetch_one(&self.pool).await.map_err(failed(OP))?;
        let there = serde_json::from_str(&get::<String>(&row, "spec")?).map_err(corrupt)?;
        Ok((TypeId(get(&row, "id")?), there))
    }

    pub(super) async fn write_type(
        &self,
        spec: &TypeSpec,
        actor: Option<&Actor>,
    ) -> Result<TypeId, StoreError> {
        const OP: &str = "write a type";
        let corrupt = |error: serde_json::Error| StoreError::Corrupt { what: error.to_string() };
        let text = serde_json::to_string(spec).map_err(corrupt)?;
        loop {
            let mut tx = self.pool.begin().await.map_err(failed(OP))?;
            let held = sqlx::query(self.sql(HOLD_TYPE)).bind(&spec.name);
            let held = held.fetch_optional(&mut *tx).await.map_err(failed(OP))?;
            let row = sqlx::query(self.sql(PUT_TYPE))
                .bind(self.offset())
                .bind(&spec.name)
                .bind(&text)
                .fetch_one(&mut *tx)
                .await
                .map_err(failed(OP))?;
            if held.is_none() && !get::<bool>(&row, "new")? {
                // Another process created it meanwhile, so it is read again.
                tx.rollback().await.map_err(failed(OP))?;
                continue;
            }
            if actor.is_some() {
                let before = held.as_ref().map(|row| get::<String>(row, "spec")).transpose()?;
                let before = before.map(|text| serde_json::from_str(&text)).transpose().map_err(corrupt)?;
                self.note(&mut tx, actor, NewAudit::type_put(before.as_ref(), spec).as_ref()).await?;
            }
            tx.commit().await.map_err(failed(OP))?;
            return get(&row, "id").map(TypeId);
        }
    }

    pub(super) async fn save_entities(
        &self,
        boxes: &BoxKinds,
        writes: &[EntityWrite],
    ) -> Result<Vec<Saved>, StoreError> {
        let writes: Vec<&EntityWrite> = writes.iter().collect();
        let mut tries = 0;
        loop {
            match self.save_once("begin", boxes, &writes).await {
                Ok(saved) => return Ok(saved),
                Err(error) if tries < TRIES && is_retryable(&error) => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn save_once(
        &self,
        begin: &'static str,
        boxes: &BoxKinds,
        writes: &[&EntityWrite],
    ) -> Result<Vec<Saved>, StoreError> {
        let mut tx = self.pool.begin_with(begin).await.map_err(failed(OP))?;
        let (answers, (queues, earliest)) = self.save_on(&mut tx, boxes, writes).await?;
        let places: Vec<(QueueId, Time)> = queues.into_iter().map(|queue| (queue, earliest)).collect();
        let wake = if places.is_empty() { None } else { self.waker.turn(places.iter().copied()) };
        // NOTIFY takes a lock until the commit, so it comes last.
        if let Some(payload) = &wake {
            let query = sqlx::query("select pg_notify($1, $2)").bind(&self.waker.channel).bind(payload);
            query.execute(&mut *tx).await.map_err(failed(OP))?;
        }
        tx.commit().await.map_err(not_committed)?;
        match wake {
            Some(_) => self.waker.here(Wake::Queue, places),
            None if places.is_empty() => {}
            None => self.waker.jobs(places),
        }
        Ok(answers)
    }

    pub(super) async fn save_entities_in(
        &self,
        tx: TxRef<'_>,
        boxes: &BoxKinds,
        writes: &[EntityWrite],
    ) -> Result<Vec<Saved>, StoreError> {
        let conn = tx::connection(tx)?;
        tx::savepoint(conn).await?;
        match self.save_on(conn, boxes, &writes.iter().collect::<Vec<_>>()).await {
            Ok((answers, (queues, earliest))) => {
                self.notify_in(conn, &queues, earliest).await?;
                tx::release(conn).await?;
                Ok(answers)
            }
            Err(error) => {
                tx::undo(conn).await?;
                Err(error)
            }
        }
    }

    /// Differs from SQLite, which applies all writes one by one: here only those with a key.
    async fn save_on(
        &self,
        conn: &mut PgConnection,
        boxes: &BoxKinds,
        writes: &[&EntityWrite],
    ) -> Result<(Vec<Saved>, Places), StoreError> {
        let (mut answers, mut places) = (Vec::with_capacity(writes.len()), (BTreeSet::new(), Time(i64::MAX)));
        for some in writes.chunk_by(|a, b| a.idempotency.is_none() && b.idempotency.is_none()) {
            let (saved, (queues, earliest)) = match some {
                [EntityWrite { idempotency: Some(key), .. }] => {
                    self.save_keyed(conn, boxes, some, key).await?
                }
                _ => self.save_batch(conn, boxes, some).await?,
            };
            answers.extend(saved);
            places.0.extend(queues);
            places.1 = places.1.min(earliest);
        }
        Ok((answers, places))
    }

    pub(super) async fn save_batch(
        &self,
        conn: &mut PgConnection,
        boxes: &BoxKinds,
        writes: &[&EntityWrite],
    ) -> Result<(Vec<Saved>, Places), StoreError> {
        let mut batch = Batch::of(writes);
        let mut open: Vec<usize> = (0..batch.entities.len()).collect();
        while !open.is_empty() {
            let mut rows = self.lock_entities(conn, &batch, &open).await?;
            for n in &open {
                batch.decide(*n, rows.remove(n), boxes);
            }
            let ids = self.draw_ids(conn, batch.unnumbered()).await?;
            batch.number(ids);
            open = self.insert_entities(conn, &mut batch, &open).await?;
        }
        self.update_entities(conn, &batch).await?;
        let places = self.put_boxes(conn, &mut batch).await?;
        self.put_prepared(conn, &batch).await?;
        Ok((batch.answers()?, places))
    }
}
