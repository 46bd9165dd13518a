//! Settling boxes: settlement and vector in one transaction.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use windlass_core::end::Ended;
use windlass_core::entity::{ContentHash, IndexState, why_failed};
use windlass_core::store::{BoxDone, BoxEnd, BoxOutcome, Settled};
use windlass_core::{Settlement, StoreError, TypeId};

use super::TRIES;
use super::boxes::Vectors;
use super::rows::{read_hash, read_state};
use crate::PostgresStore;
use crate::error::{failed, is_conflict};
use crate::row::get;
use crate::settle::places;

/// Locks like a writer, without reading the content. `age`: microseconds since it was written.
const LOCK_HASHES: &str = "
    select k.n, e.no, e.hash, e.state, e.job_id,
           (extract(epoch from statement_timestamp() - e.updated_at) * 1000000)::bigint + $3 as age
    from unnest($1::int[], $2::text[]) with ordinality k (type, id, n)
    cross join lateral (
        select no, hash, state, job_id, updated_at from windlass.entities where type = k.type and id = k.id for update) e";

const EMBEDDED: &str = "
    update windlass.entities
    set state = 2, waiting = null, error = null, indexed_version = version, changed = pg_current_xact_id()
    where no = any ($1)";

const OP: &str = "index entities";
/// Boxes per transaction, each with its vector.
const ROWS: usize = 1_000;

type Locked<'d> = HashMap<(TypeId, &'d str), Row>;

/// The columns of a locked entity.
struct Row {
    no: i64,
    hash: Option<ContentHash>,
    state: IndexState,
    /// Its newest box.
    job: Option<i64>,
    /// How long ago it was written.
    age: Duration,
}

impl PostgresStore {
    pub(super) async fn end_boxes(&self, done: &[BoxDone]) -> Result<Vec<BoxEnd>, StoreError> {
        let mut answers = Vec::with_capacity(done.len());
        for some in done.chunks(ROWS) {
            let mut tries = 0;
            answers.extend(loop {
                match self.end_boxes_once(some).await {
                    Err(error) if is_conflict(&error) && tries < TRIES => tries += 1,
                    other => break other?,
                }
            });
        }
        Ok(answers)
    }

    async fn end_boxes_once(&self, done: &[BoxDone]) -> Result<Vec<BoxEnd>, StoreError> {
        let settlements: Vec<Settlement> = done.iter().map(|one| one.settlement.clone()).collect();
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        // Differs from SQLite, which settles first. A returning job takes its unique key, for which a writer may wait
        // while it has locked an entity. Locking entities before jobs, as writers do, avoids the deadlock.
        let locked = self.lock_boxed(&mut tx, done).await?;
        let read = Instant::now();
        let answers = self.settle_on(&mut tx, &settlements).await?;
        let accepted = done.iter().zip(&answers).filter(|(_, answer)| **answer == Settled::Accepted);
        self.write_vectors(&mut tx, &locked, accepted.map(|(one, _)| one)).await?;
        let failed_of = |(one, answer): (&BoxDone, &Settled)| {
            let row = locked.get(&(one.entity_type, one.id.as_str()))?;
            let ended = Ended::by(&one.settlement, *answer)?;
            let why = why_failed(ended.state, ended.error.as_deref())?;
            (row.job == Some(one.settlement.id.0)).then_some((row.no, why))
        };
        self.fail_entities(&mut tx, done.iter().zip(&answers).filter_map(failed_of)).await?;
        tx.commit().await.map_err(failed(OP))?;
        let woken = places(&settlements, &self.limited);
        if !woken.is_empty() {
            self.waker.jobs(woken);
        }
        let since = read.elapsed();
        let end = |(one, settled): (&BoxDone, Settled)| {
            let embedded = settled == Settled::Accepted && matches!(one.outcome, BoxOutcome::Embedded { .. });
            let row = written_of(&locked, one).filter(|row| embedded && row.state != IndexState::Indexed);
            BoxEnd { settled, searchable_after: row.map(|row| row.age + since) }
        };
        Ok(done.iter().zip(answers).map(end).collect())
    }

    async fn lock_boxed<'d>(
        &self,
        conn: &mut PgConnection,
        done: &'d [BoxDone],
    ) -> Result<Locked<'d>, StoreError> {
        let mut keys: Vec<(TypeId, &str)> = done.iter().map(|one| (one.entity_type, &*one.id)).collect();
        keys.sort_unstable();
        keys.dedup();
        let (types, ids): (Vec<i32>, Vec<&str>) = keys.iter().map(|(of, id)| (of.0, *id)).unzip();
        let query = sqlx::query(self.sql(LOCK_HASHES)).bind(types).bind(ids).bind(self.offset());
        let rows = query.fetch_all(conn).await.map_err(failed(OP))?;
        rows.iter()
            .map(|row| {
                let n: i64 = get(row, "n")?;
                let key = usize::try_from(n - 1).ok().and_then(|n| keys.get(n));
                let key = key.ok_or_else(|| StoreError::Corrupt {
                    what: format!("the lock statement returned the unknown row {n}"),
                })?;
                let age = Duration::from_micros(u64::try_from(get::<i64>(row, "age")?).unwrap_or(0));
                let state = read_state(get(row, "state")?)?;
                let (no, job, hash) = (get(row, "no")?, get(row, "job_id")?, read_hash(row)?);
                Ok((*key, Row { no, hash, state, job, age }))
            })
            .collect()
    }

    async fn write_vectors(
        &self,
        conn: &mut PgConnection,
        locked: &Locked<'_>,
        accepted: impl Iterator<Item = &BoxDone>,
    ) -> Result<(), StoreError> {
        let mut vectors = Vectors::new();
        for one in accepted {
            let BoxOutcome::Embedded { space, vector } = &one.outcome else { continue };
            let Some(Row { no, .. }) = written_of(locked, one) else { continue };
            vectors.insert((*no, space), (&one.hash, vector));
        }
        if !vectors.is_empty() {
            let mut numbers: Vec<i64> = vectors.keys().map(|(no, _)| *no).collect();
            numbers.dedup();
            let query = sqlx::query(self.sql(EMBEDDED)).bind(numbers);
            query.execute(&mut *conn).await.map_err(failed(OP))?;
        }
        self.put_vectors(conn, &vectors).await
    }
}

/// `None` when the content has changed since it was boxed. A tombstone has no content.
fn written_of<'l>(locked: &'l Locked<'_>, one: &'l BoxDone) -> Option<&'l Row> {
    locked.get(&(one.entity_type, one.id.as_str())).filter(|row| row.hash == Some(one.hash))
}
