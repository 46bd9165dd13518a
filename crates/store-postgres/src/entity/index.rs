//! Ending boxes: settlement and vector in one transaction.

use std::collections::{BTreeMap, HashMap};

use sqlx::PgConnection;
use windlass_core::entity::ContentHash;
use windlass_core::store::{BoxDone, BoxOutcome, Settled};
use windlass_core::{Settlement, StoreError, TypeId, Verdict};

use super::TRIES;
use super::boxes::Vectors;
use super::rows::read_hash;
use crate::PostgresStore;
use crate::error::{failed, is_conflict};
use crate::row::{get, text_in};
use crate::settle::places;

/// As a writer locks, without reading the content.
const LOCK_HASHES: &str = "
    select k.n, e.no, e.hash
    from unnest($1::int[], $2::text[]) with ordinality k (type, id, n)
    cross join lateral (
        select no, hash from windlass.entities where type = k.type and id = k.id for update) e";

const EMBEDDED: &str = "
    update windlass.entities
    set state = 2, waiting = null, error = null, indexed_version = version, changed = pg_current_xact_id()
    where no = any ($1)";

const FAILED: &str = "
    update windlass.entities e set state = 3, waiting = null, error = u.error
    from unnest($1::bigint[], $2::text[]) u (no, error)
    where e.no = u.no and e.state = 1";

const OP: &str = "index entities";
/// Boxes of one transaction, each with its vector.
const ROWS: usize = 1_000;

/// Entities under lock, with the content each has now.
type Locked<'d> = HashMap<(TypeId, &'d str), (i64, Option<ContentHash>)>;

impl PostgresStore {
    pub(super) async fn end_boxes(&self, done: &[BoxDone]) -> Result<Vec<Settled>, StoreError> {
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

    async fn end_boxes_once(&self, done: &[BoxDone]) -> Result<Vec<Settled>, StoreError> {
        let settlements: Vec<Settlement> = done.iter().map(|one| one.settlement.clone()).collect();
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        // Differs from SQLite, which settles first: a job that returns takes its unique key, for which a writer may
        // wait while it holds an entity. Entities before jobs, here as there, so neither waits for the other.
        let locked = self.lock_boxed(&mut tx, done).await?;
        let answers = self.end_on(&mut tx, &settlements).await?;
        let accepted = done.iter().zip(&answers).filter(|(_, answer)| **answer == Settled::Accepted);
        self.write_outcomes(&mut tx, &locked, accepted.map(|(one, _)| one)).await?;
        tx.commit().await.map_err(failed(OP))?;
        let woken = places(&settlements);
        if !woken.is_empty() {
            self.waker.jobs(woken);
        }
        Ok(answers)
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
        let query = sqlx::query(self.sql(LOCK_HASHES)).bind(types).bind(ids);
        let rows = query.fetch_all(conn).await.map_err(failed(OP))?;
        rows.iter()
            .map(|row| {
                let n: i64 = get(row, "n")?;
                let key = usize::try_from(n - 1).ok().and_then(|n| keys.get(n));
                let key =
                    key.ok_or_else(|| StoreError::Corrupt { what: format!("row {n} of the locked") })?;
                Ok((*key, (get(row, "no")?, read_hash(row)?)))
            })
            .collect()
    }

    /// Each only while the content is the one that was embedded; a tombstone has none.
    async fn write_outcomes(
        &self,
        conn: &mut PgConnection,
        locked: &Locked<'_>,
        accepted: impl Iterator<Item = &BoxDone>,
    ) -> Result<(), StoreError> {
        let (mut vectors, mut errors) = (Vectors::new(), BTreeMap::new());
        for one in accepted {
            let Some((no, hash)) = locked.get(&(one.entity_type, one.id.as_str())) else { continue };
            if *hash != Some(one.hash) {
                continue;
            }
            match &one.outcome {
                BoxOutcome::Embedded { space, vector } => {
                    vectors.insert((*no, space), (&one.hash, vector));
                }
                BoxOutcome::Failed { error } if matches!(one.settlement.verdict, Verdict::End { .. }) => {
                    errors.insert(*no, text_in(error).into_owned());
                }
                BoxOutcome::Failed { .. } => {}
            }
        }
        if !errors.is_empty() {
            let (numbers, errors): (Vec<i64>, Vec<String>) = errors.into_iter().unzip();
            let query = sqlx::query(self.sql(FAILED)).bind(numbers).bind(errors);
            query.execute(&mut *conn).await.map_err(failed(OP))?;
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
