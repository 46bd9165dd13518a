//! What a call of writes adds beside the rows: boxes in their queues, and vectors that came with the writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::PgConnection;
use windlass_core::entity::ContentHash;
use windlass_core::{NewJob, QueueId, RunAt, StoreError, Time};

use super::batch::{Batch, Entity, Fate};
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{get, text_in, time};

/// Differs from SQLite, which handles the boxes one by one: all waiting boxes are removed at once, whether replaced or
/// not, so that a thousand replacements need no more round trips than one.
const END_BOXES: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    d as (delete from windlass.ready where unique_key = any ($2::text[]) and unique_key is not null and lane is null
          returning id, attempt, run_at, unique_key),
    k as (delete from windlass.cancels where job_id in (select id from d)),
    f as (insert into windlass.finished (id, state, attempt, finished_at)
          select d.id, {superseded}, d.attempt, n.now from d, n)
    select d.unique_key, d.run_at, n.now from d, n";

const CLEAR_VECTORS: &str = "delete from windlass.vectors where entity = any ($1)";

const PUT_VECTORS: &str = "
    insert into windlass.vectors (entity, space, hash, vector)
    select * from unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[])
    on conflict (entity, space) do update set hash = excluded.hash, vector = excluded.vector";

const OP: &str = "save entities";

/// Queues that got boxes, and the earliest time of those.
pub(super) type Places = (BTreeSet<QueueId>, Time);

/// The time a removed box was due, and when it was removed.
struct RemovedBox {
    run_at: Time,
    now: Time,
}

/// Vectors by entity and space, each once.
pub(super) type Vectors<'v> = BTreeMap<(i64, &'v str), (&'v ContentHash, &'v [u8])>;

impl PostgresStore {
    pub(super) async fn put_boxes(
        &self,
        conn: &mut PgConnection,
        batch: &mut Batch<'_>,
    ) -> Result<Places, StoreError> {
        let boxed = batch.take_boxes();
        let entities = &batch.entities;
        // A new entity has no box yet.
        let touched = |e: &&Entity<'_>| e.old_version.is_some() && e.waiting_box != Fate::Stays;
        let removed = self.take_out(conn, keys(entities, touched)).await?;
        let mut first = Time(i64::MAX);
        let (mut jobs, mut ids) = (Vec::with_capacity(boxed.len()), Vec::with_capacity(boxed.len()));
        for (mut job, id, n) in boxed {
            if entities[n].waiting_box == Fate::Replaced {
                first = first.min(keep_place(&mut job, &removed));
            }
            jobs.push(job);
            ids.push(id);
        }
        if !jobs.is_empty() {
            self.enqueue_drawn(conn, &jobs, ids).await?;
        }
        self.take_out(conn, keys(entities, |e| e.box_ends)).await?;
        Ok((jobs.iter().map(|job| job.queue).collect(), first))
    }

    /// Ends the boxes that wait under these keys as superseded.
    async fn take_out(
        &self,
        conn: &mut PgConnection,
        keys: Vec<String>,
    ) -> Result<HashMap<String, RemovedBox>, StoreError> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = sqlx::query(self.sql(END_BOXES))
            .bind(self.offset())
            .bind(keys)
            .fetch_all(conn)
            .await
            .map_err(failed(OP))?;
        rows.iter()
            .map(|row| {
                let removed = RemovedBox { run_at: time(row, "run_at")?, now: time(row, "now")? };
                Ok((get(row, "unique_key")?, removed))
            })
            .collect()
    }

    pub(super) async fn put_prepared(
        &self,
        conn: &mut PgConnection,
        batch: &Batch<'_>,
    ) -> Result<(), StoreError> {
        let gone: Vec<i64> = batch.entities.iter().filter(|e| e.vectors_go).filter_map(|e| e.no).collect();
        if !gone.is_empty() {
            let query = sqlx::query(self.sql(CLEAR_VECTORS)).bind(gone);
            query.execute(&mut *conn).await.map_err(failed(OP))?;
        }
        let mut vectors = Vectors::new();
        for entity in &batch.entities {
            let Some(no) = entity.no else { continue };
            for made in &entity.vectors {
                vectors.insert((no, &made.space), (&made.hash, &made.vector));
            }
        }
        self.put_vectors(conn, &vectors).await
    }

    /// The caller has locked the entities.
    pub(super) async fn put_vectors(
        &self,
        conn: &mut PgConnection,
        vectors: &Vectors<'_>,
    ) -> Result<(), StoreError> {
        if vectors.is_empty() {
            return Ok(());
        }
        sqlx::query(self.sql(PUT_VECTORS))
            .bind(vectors.keys().map(|(no, _)| *no).collect::<Vec<_>>())
            .bind(vectors.keys().map(|(_, space)| text_in(space).into_owned()).collect::<Vec<_>>())
            .bind(vectors.values().map(|(hash, _)| hash.as_slice()).collect::<Vec<_>>())
            .bind(vectors.values().map(|(_, vector)| *vector).collect::<Vec<_>>())
            .execute(conn)
            .await
            .map_err(failed(OP))?;
        Ok(())
    }
}

fn keys<'w>(entities: &[Entity<'w>], which: impl Fn(&&Entity<'w>) -> bool) -> Vec<String> {
    entities.iter().filter(which).map(Entity::box_key).collect()
}

/// A newer box keeps the time of the one it replaces, unless its own is earlier. Returns that time.
fn keep_place(job: &mut NewJob, removed: &HashMap<String, RemovedBox>) -> Time {
    let removed = job.unique.as_ref().and_then(|unique| removed.get(&unique.key));
    let Some(RemovedBox { run_at, now }) = removed else { return Time(i64::MAX) };
    let own = match job.run_at {
        RunAt::Now => *now,
        RunAt::In(delay) => now.plus(delay),
        RunAt::At(time) => time,
    };
    let place = own.min(*run_at);
    job.run_at = RunAt::At(place);
    place
}
